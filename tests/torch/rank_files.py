#!/usr/bin/env python3
"""rank_files.py DCPCTL verl|torch_checkpointing: what every rank saved with torch.save, as programs of FSDP workers do, read as one checkpoint.

Saved by 2 and 4 ranks: sharded, replicated and sharded, on two dims, by FSDP over tensor parallelism (strided shards), unevenly. What dcpctl
makes of it is the state dict that was sharded, and what verl's own merger and torch_checkpointing's own loader make of the same files. Needs
verl 0.9 and torch_checkpointing 0.1 beside torch (.venv-maps); without them exits 77.
"""
import importlib.util
import json
import shutil
import subprocess
import sys
import tempfile
import types
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests/data"), str(ROOT / ".venv-maps")]

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FullyShardedDataParallel, StateDictType, fully_shard
from torch.distributed.tensor import Replicate, Shard, distribute_tensor
from torch.distributed.tensor.parallel import ColwiseParallel, parallelize_module

import describe
from case import check, failures


def same(got, wanted, what):
    """Equal as state dicts: the same nesting, tensors to the bit."""
    if isinstance(wanted, dict):
        check(isinstance(got, dict) and list(map(str, got)) == list(map(str, wanted)), f"{what}: keys {list(got)}, expected {list(wanted)}")
        for key in wanted.keys() & got.keys():
            same(got[key], wanted[key], f"{what}.{key}")
    elif isinstance(wanted, torch.Tensor):
        check(describe.describe_tensor(got) == describe.describe_tensor(wanted), f"{what}: {got}, expected {wanted}")
    else:
        check(got == wanted, f"{what}: {got}, expected {wanted}")


def whole_model():
    torch.manual_seed(1)
    return {
        "model.embed.weight": torch.randn(10, 6),
        "model.layers.0.w": torch.randn(7, 3).to(torch.bfloat16),  # uneven
        "model.layers.0.norm": torch.randn(3),  # fewer rows than ranks
        "one": torch.randn(1, 4),
        "deep": torch.randint(0, 99, (5, 4, 2)),
    }


def whole_optim():
    state = {key: {"step": torch.tensor(3.0), "exp_avg": t.float() * 2} for key, t in whole_model().items() if t.is_floating_point()}
    return {"state": state, "param_groups": [{"lr": 1e-3, "betas": (0.9, 0.95), "params": list(state)}]}


def sharded(tree, mesh, placements):
    if isinstance(tree, dict):
        return {key: sharded(value, mesh, placements) for key, value in tree.items()}
    if isinstance(tree, torch.Tensor) and tree.dim() > 0:
        return distribute_tensor(tree, mesh, [p if not isinstance(p, Shard) or p.dim < tree.dim() else Replicate() for p in placements])
    return tree


def parallel_linear(mesh):
    """FSDP over tensor parallelism: _StridedShard(0), Shard(0)."""
    torch.manual_seed(2)
    module = torch.nn.Sequential(torch.nn.Linear(6, 24))
    whole = {key: t.detach().clone() for key, t in module.state_dict().items()}
    parallelize_module(module, mesh["tp"], {"0": ColwiseParallel()})
    fully_shard(module, mesh=mesh["dp"])
    return module.state_dict(), whole


def save_with_fsdp1(folder, rank, world, use_orig_params):
    """verl's default: the optimizer holds flat shards, which are plain tensors."""
    torch.manual_seed(3)
    module = torch.nn.Sequential(torch.nn.Linear(5, 7), torch.nn.Linear(7, 3))
    mesh = init_device_mesh("cpu", (world,), mesh_dim_names=("fsdp",))
    model = FullyShardedDataParallel(module, device_mesh=mesh, use_orig_params=use_orig_params, device_id=torch.device("cpu"))
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)
    model(torch.ones(2, 5) * (rank + 1)).sum().backward()
    optimizer.step()
    with FullyShardedDataParallel.state_dict_type(model, StateDictType.SHARDED_STATE_DICT):
        state = model.state_dict()
        save_as_verl(folder, rank, world, {"model": state, "optim": optimizer.state_dict()})
    whole = {key: t.full_tensor() for key, t in state.items()}
    if rank == 0:
        torch.save(whole, folder / "whole")


FSDP1 = {"flat": False, "orig": True}  # use_orig_params

# verl looks at the first key alone to find the mesh: it has to be a DTensor.
MESHES = {  # name: shape, names, placements
    "fsdp": (lambda world: (world,), ("fsdp",), [Shard(0)]),
    "hybrid": (lambda world: (2, world // 2), ("ddp", "fsdp"), [Replicate(), Shard(0)]),
    "grid": (lambda world: (2, world // 2), ("a", "b"), [Shard(0), Shard(1)]),
}


def save_as_verl(folder, rank, world, parts):
    folder.mkdir(parents=True, exist_ok=True)
    for part, value in parts.items():
        torch.save(value, folder / f"{part}_world_size_{world}_rank_{rank}.pt")


def save_all(rank, world, folder, program):
    dist.init_process_group("gloo", init_method=f"file://{folder}/store", rank=rank, world_size=world)
    folder = Path(folder)
    for name, (shape, names, placements) in MESHES.items():
        mesh = init_device_mesh("cpu", shape(world), mesh_dim_names=names)
        model = sharded(whole_model(), mesh, placements) | {"rope_buffer": torch.arange(4.0)}
        model["tied"] = model["model.embed.weight"]
        optim = sharded(whole_optim(), mesh, placements)
        if program == "verl":
            own = {"lr_scheduler": {"last_epoch": 3, "_last_lr": [0.1]}, "rng": {"cpu": torch.full((5,), rank), "random": (3, (rank, 2), None)}}
            save_as_verl(folder / name, rank, world, {"model": model, "optim": optim, "extra_state": own})
        else:
            torch_checkpointing(folder / name).save(str(folder / name), {"model": model, "optim": optim, "train": {"step": 5}, "seed": 7})
        dist.barrier()
    for name, use_orig_params in FSDP1.items() if program == "verl" else []:
        save_with_fsdp1(folder / name, rank, world, use_orig_params)
        dist.barrier()
    if program == "verl" and world == 4:
        model, whole = parallel_linear(init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp")))
        save_as_verl(folder / "strided", rank, world, {"model": model})
        if rank == 0:
            torch.save(whole, folder / "strided.whole")
    dist.barrier()
    dist.destroy_process_group()


def run(dcpctl, *arguments, exit_code=0):
    result = subprocess.run([dcpctl, *map(str, arguments)], capture_output=True, text=True)
    check(result.returncode == exit_code, f"{arguments}: exit {result.returncode}, expected {exit_code}\n{result.stdout}{result.stderr}")
    return result


def wanted_model():
    whole = whole_model()
    return whole | {"rope_buffer": torch.arange(4.0), "tied": whole["model.embed.weight"]}


def check_reading(dcpctl, folder, out, wanted):
    """Every command that reads takes it; what comes out is what was sharded."""
    run(dcpctl, "inspect", folder)
    run(dcpctl, "verify", folder, "--fail-on", "unsafe")
    run(dcpctl, "consolidate", folder, out / "all.pt", "--no-sync")
    same(torch.load(out / "all.pt"), wanted, f"{folder.name}: all")
    run(dcpctl, "consolidate", folder, out / "model.pt", "--model-only", "--no-sync")
    same(torch.load(out / "model.pt"), wanted["model"], f"{folder.name}: model")
    for threads in ["1", "3"]:
        run(dcpctl, "convert", folder, out / f"dcp{threads}", "--no-sync", "-j", threads)
        run(dcpctl, "diff", folder, out / f"dcp{threads}")
    same(as_torch_loads(out / "dcp3"), wanted, f"{folder.name}: DCP")
    run(dcpctl, "reshard", folder, out / "resharded", "--world-size", 3, "--no-sync")
    same(as_torch_loads(out / "resharded"), wanted, f"{folder.name}: resharded")
    run(dcpctl, "cast", folder, out / "cast", "--dtype", "bf16", "--model-only", "--no-sync")
    cast = {key: t.bfloat16() if t.is_floating_point() else t for key, t in wanted["model"].items()}
    same(as_torch_loads(out / "cast"), cast, f"{folder.name}: cast")
    check_tensors(dcpctl, folder, out, wanted["model"])
    run(dcpctl, "verify", folder, "--manifest", out / "manifest.json")
    run(dcpctl, "verify", out / "resharded", "--against", out / "manifest.json")
    check_run(dcpctl, folder, out / "run")


def as_torch_loads(folder):
    from torch.distributed.checkpoint.format_utils import dcp_to_torch_save

    dcp_to_torch_save(folder, f"{folder}.pt")
    return torch.load(f"{folder}.pt", weights_only=False)


def check_tensors(dcpctl, folder, out, model):
    """Its tensors one by one: whole, sliced, as numbers."""
    stats = json.loads(run(dcpctl, "inspect", folder, "--stats", "model.*", "--json").stdout)["stats"]
    check(sorted(s["key"] for s in stats) == sorted(f"model.{key}" for key in model), f"{folder.name}: statistics of {[s['key'] for s in stats]}")
    for s in stats:
        key = s["key"].removeprefix("model.")
        t = model[key].double()
        got, expected = [s["min"], s["max"], s["mean"]], [t.min().item(), t.max().item(), t.mean().item()]
        check(torch.allclose(torch.tensor(got), torch.tensor(expected)), f"{folder.name}: {key}: min, max, mean {got}, expected {expected}")
        for n, (part, words) in enumerate([(model[key], []), (model[key][1:], ["--slice", "1:"])]):
            file = out / f"{key}.{n}.pt"
            run(dcpctl, "extract", folder, s["key"], *words, "-o", file)
            same(torch.load(file), part.clone(), f"{folder.name}: {key} {words}")


def check_run(dcpctl, folder, run_folder):
    """As the trainer lays its steps out: the roles of a step in folders of their own."""
    for step in [5, 10]:
        for role in ["actor", "critic"]:
            shutil.copytree(folder, run_folder / f"global_step_{step}" / role)
        (run_folder / f"global_step_{step}" / "data.pt").write_bytes(b"")
    (run_folder / "latest_checkpointed_iteration.txt").write_text("10")
    next((run_folder / "global_step_5" / "critic").glob("model_*1.pt")).unlink()
    listed = json.loads(run(dcpctl, "list", run_folder, "--json").stdout)
    got = [(s["step"], s["state"]) for s in listed["steps"]]
    check(got == [(5, "incomplete"), (10, "complete")], f"{folder.name}: steps {got}")
    check(listed["latest"] == str(run_folder / "global_step_10"), f"{folder.name}: the latest is {listed['latest']}")


# --- verl


def verls_merger():
    """verl's own code, without the package around it, which imports what serves models."""
    name = "verl.model_merger"
    for module in ["verl", name, f"{name}.base_model_merger"]:
        sys.modules[module] = types.ModuleType(module)
    sys.modules[f"{name}.base_model_merger"].BaseModelMerger = object
    file = ROOT / ".venv-maps/verl/model_merger/fsdp_model_merger.py"
    spec = importlib.util.spec_from_file_location(f"{name}.fsdp_model_merger", file)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.FSDPModelMerger


def as_verl_merges(folder, world):
    merger = verls_merger().__new__(verls_merger())
    merger.config = types.SimpleNamespace(local_dir=folder)
    mesh, names = merger._extract_device_mesh_info(merger._load_rank_zero_state_dict(world), world)
    shards, shape = merger._calculate_shard_configuration(mesh, names)
    return merger._load_and_merge_state_dicts(world, shards, shape, names)


def verl(dcpctl, folder, out, world):
    wanted = {"extra_state": {}, "model": wanted_model(), "optim": whole_optim()}
    for rank in range(world):
        wanted["extra_state"][f"rank_{rank}"] = {
            "lr_scheduler": {"last_epoch": 3, "_last_lr": [0.1]},
            "rng": {"cpu": torch.full((5,), rank), "random": (3, (rank, 2), None)},
        }
    for name in MESHES:
        (out / name).mkdir()
        check_reading(dcpctl, folder / name, out / name, wanted)
        if name != "grid":  # which verl does not merge
            merged = as_verl_merges(folder / name, world)
            ours = {key: t.bfloat16() for key, t in torch.load(out / name / "model.pt").items()}
            same(dict(sorted(ours.items())), dict(sorted(merged.items())), f"{name}: as verl merges it")
    if world == 4:
        run(dcpctl, "consolidate", folder / "strided", out / "strided.pt", "--model-only", "--no-sync")
        same(torch.load(out / "strided.pt"), torch.load(folder / "strided.whole"), "strided")
    for name in FSDP1:
        (out / name).mkdir()
        fsdp1(dcpctl, folder / name, out / name, world)
    refusals(dcpctl, folder / "fsdp", out, world)


def fsdp1(dcpctl, folder, out, world):
    optim = {f"rank_{rank}": torch.load(folder / f"optim_world_size_{world}_rank_{rank}.pt") for rank in range(world)}
    whole = torch.load(folder / "whole")
    check_reading(dcpctl, folder, out, {"model": whole, "optim": optim})
    same(dict(sorted(as_verl_merges(folder, world).items())), dict(sorted((key, t.bfloat16()) for key, t in whole.items())), f"{folder.name}: as verl merges it")
    result = run(dcpctl, "verify", folder)
    check("optim.rank_0" in result.stdout and "--prefer-rank" not in result.stdout, f"flat shards are not named: {result.stdout}")
    run(dcpctl, "consolidate", folder, out / "no-optim.pt", "--exclude", "optim.*", "--no-sync")


def refusals(dcpctl, folder, out, world):
    last = folder / f"model_world_size_{world}_rank_{world - 1}.pt"
    away = last.rename(out / "away")
    result = run(dcpctl, "consolidate", folder, out / "refused.pt", exit_code=3)
    check(last.name in result.stderr, f"a missing rank: {result.stderr}")
    away.rename(last)
    other = folder / f"model_world_size_{world + 1}_rank_0.pt"
    other.write_bytes(last.read_bytes())
    result = run(dcpctl, "inspect", folder, exit_code=3)
    check(other.name in result.stderr, f"two worlds: {result.stderr}")
    other.unlink()
    state = torch.load(last, weights_only=False)
    torch.save(state | {"rope_buffer": torch.zeros(4)}, last)
    result = run(dcpctl, "consolidate", folder, out / "refused.pt", exit_code=3)
    check("model.rope_buffer" in result.stderr, f"values that differ: {result.stderr}")
    run(dcpctl, "consolidate", folder, out / "preferred.pt", "--prefer-rank", world - 1, "--model-only", "--no-sync")
    same(torch.load(out / "preferred.pt")["rope_buffer"], torch.zeros(4), "the preferred rank's")
    check(not (out / "refused.pt").exists(), "something was written")


# --- torch_checkpointing


def torch_checkpointing_config():
    from torch_checkpointing import CheckpointManager, ItemSpec
    from torch_checkpointing.default_resharder import DefaultResharder
    from torch_checkpointing.storage.filesystem import LocalFileSystemStorageConfig

    # What it gathers of ranks goes over the GPU.
    make = torch.tensor
    torch.tensor = lambda *data, device=None, **how: make(*data, **how)
    torch.Tensor.cuda = lambda tensor: tensor
    config = CheckpointManager.Config.with_sync_save()
    config.default = ItemSpec(resharder=DefaultResharder())
    config.storage_config = LocalFileSystemStorageConfig(use_direct_io=False)
    return config


def torch_checkpointing(folder):
    return torch_checkpointing_config().build()


def load_as_one_rank(folder, wanted):
    """What its own loader makes of the files for a single rank."""
    dist.init_process_group("gloo", init_method=f"file://{folder}.store", rank=0, world_size=1)
    mesh = init_device_mesh("cpu", (1,))
    into = {
        "model": sharded({key: torch.zeros_like(t) for key, t in wanted["model"].items() if key != "rope_buffer"}, mesh, [Shard(0)]),
        "optim": sharded(empty(wanted["optim"]), mesh, [Shard(0)]),
        "train": {"step": 0},
        "seed": 0,
    }
    into["model"]["rope_buffer"] = torch.zeros(4)
    loaded = whole(torch_checkpointing(folder).load(str(folder), into=into))
    dist.destroy_process_group()
    return loaded


def empty(tree):
    """The same with other values."""
    if isinstance(tree, dict):
        return {key: empty(value) for key, value in tree.items()}
    if isinstance(tree, list):
        return [empty(value) for value in tree]
    return torch.zeros_like(tree) if isinstance(tree, torch.Tensor) else tree


def whole(tree):
    if isinstance(tree, dict):
        return {key: whole(tree[key]) for key in sorted(tree, key=str)}
    return tree.full_tensor() if hasattr(tree, "full_tensor") else tree


def by_torch_checkpointing(dcpctl, folder, out, world):
    wanted = {"model": wanted_model(), "optim": whole_optim(), "seed": 7, "train": {"step": 5}}
    for name in MESHES:
        (out / name).mkdir()
        check_reading(dcpctl, folder / name, out / name, wanted)
        loaded = load_as_one_rank(folder / name, wanted)
        same(loaded, whole(torch.load(out / name / "all.pt")), f"{name}: as torch_checkpointing loads it")


def main():
    dcpctl, program = sys.argv[1:]
    if not (ROOT / ".venv-maps/verl").exists() or not (ROOT / ".venv-maps/torch_checkpointing").exists():
        print("no verl, no torch_checkpointing beside torch")
        return 77
    torch.set_num_threads(1)  # ranks are forked: no thread may be there before
    for world in [2, 4]:
        with tempfile.TemporaryDirectory() as scratch:
            folder, out = Path(scratch, "in"), Path(scratch, "out")
            folder.mkdir()
            out.mkdir()
            torch.multiprocessing.start_processes(save_all, args=(world, str(folder), program), nprocs=world, start_method="fork")
            {"verl": verl, "torch_checkpointing": by_torch_checkpointing}[program](dcpctl, folder, out, world)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
