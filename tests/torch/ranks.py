#!/usr/bin/env python3
"""What several ranks of torch load from what dcpctl resharded, and what torch itself would have saved there. Gloo on this machine.

    ranks.py DCPCTL fsdp WORLD        an FSDP2 model's checkpoint, resharded to WORLD ranks: through fully_shard and set_model_state_dict into
                                      the values that were saved; boxes as torch's own save of the model on WORLD ranks has them
    ranks.py DCPCTL placements WORLD  DTensors of every placement on WORLD ranks: as dcp.save has their boxes, rank by rank; loaded
    ranks.py DCPCTL plan WORLD        the boxes of the default layout for WORLD ranks beside those that DTensor computes, no rank started
    ranks.py DCPCTL torch23           what --for-torch 2.3 writes: keys as torch 2.3 flattens, classes by their names of 2.0
"""
import os
import pickle
import subprocess
import sys
import tempfile
import warnings
from pathlib import Path

DATA = Path(__file__).resolve().parent.parent / "data"
sys.path.insert(0, str(DATA))
warnings.filterwarnings("ignore")
os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "ERROR")

import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402
import torch.distributed.checkpoint as dcp  # noqa: E402
import torch.multiprocessing as mp  # noqa: E402
from torch.distributed.checkpoint.state_dict import get_model_state_dict, get_state_dict, set_model_state_dict  # noqa: E402
from torch.distributed.device_mesh import init_device_mesh  # noqa: E402
from torch.distributed.tensor import DTensor, Replicate, Shard, distribute_tensor  # noqa: E402

import models  # noqa: E402


def check(truth, what):
    if not truth:
        raise AssertionError(what)


def same(got, wanted, what):
    check(got == wanted, f"{what}: got {got}, expected {wanted}")


def run(dcpctl, *arguments):
    result = subprocess.run([dcpctl, *map(str, arguments)], capture_output=True, text=True)
    check(result.returncode == 0, f"{arguments}: exit {result.returncode}\n{result.stdout}{result.stderr}")
    return result


def boxes(folder):
    """key -> its chunks as (offsets, sizes, file), sorted; None for an object."""
    metadata = dcp.FileSystemReader(folder).read_metadata()
    files = {(i.fqn, None if i.offset is None else tuple(i.offset)): s.relative_path for i, s in metadata.storage_data.items()}
    return {
        key: sorted((tuple(c.offsets), tuple(c.sizes), files[key, tuple(c.offsets)]) for c in entry.chunks) if hasattr(entry, "chunks") else None
        for key, entry in metadata.state_dict_metadata.items()
    }


def without_files(of):
    """Which rank writes what several hold is dealt out by bytes, by torch and by dcpctl in their own order."""
    return {key: chunks and [c[:2] for c in chunks] for key, chunks in of.items()}


def on_ranks(world, function, *arguments):
    with tempfile.TemporaryDirectory() as store:
        mp.start_processes(rank_main, (world, store, function, arguments), nprocs=world, start_method="fork")


def rank_main(rank, world, store, function, arguments):
    warnings.filterwarnings("ignore")
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{store}/store", rank=rank, world_size=world)
    function(rank, world, *arguments)
    dist.barrier()
    os._exit(0)  # threads of gloo and autograd sometimes abort an orderly end, after all is done


# ---- a model


def fsdp_model(world, seed):
    from torch.distributed.fsdp import fully_shard

    torch.manual_seed(seed)
    model = models.Transformer()
    mesh = init_device_mesh("cpu", (world,))
    for layer in model.layers.values():
        fully_shard(layer, mesh=mesh)
    fully_shard(model, mesh=mesh)
    return model


def save_model(rank, world, folder):
    model = fsdp_model(world, 7)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    model(torch.arange(8).reshape(2, 4)).sum().backward()
    optimizer.step()
    state, optimizer_state = get_state_dict(model, optimizer)
    dcp.save({"model": state, "optimizer": optimizer_state}, checkpoint_id=folder)


def load_model(rank, world, folder, expected):
    model = fsdp_model(world, 8)
    state = {"model": get_model_state_dict(model)}
    dcp.load(state, checkpoint_id=folder)
    set_model_state_dict(model, state["model"])
    wanted = torch.load(expected, weights_only=True)
    got = {key: value.full_tensor() if isinstance(value, DTensor) else value for key, value in model.state_dict().items()}
    same(sorted(got), sorted(wanted), "keys of the model")
    for key, value in got.items():
        check(torch.equal(value, wanted[key]), f"{key} differs")


def fsdp(dcpctl, world, scratch):
    on_ranks(2, save_model, scratch / "two")
    on_ranks(world, save_model, scratch / "torchs")
    run(dcpctl, "reshard", scratch / "two", scratch / "ours", "--world-size", world, "--no-sync")
    run(dcpctl, "consolidate", scratch / "two", scratch / "model.pt", "--model-only", "--no-sync")
    same(without_files(boxes(scratch / "ours")), without_files(boxes(scratch / "torchs")), f"boxes on {world} ranks")
    # Every rank reads only its own file where the tensor is sharded.
    for key, chunks in boxes(scratch / "ours").items():
        for n, (_, _, file) in enumerate(chunks or []):
            if len(chunks) > 1:
                same(file, f"__{n}_0.distcp", f"the file of chunk {n} of {key}")
    on_ranks(world, load_model, scratch / "ours", scratch / "model.pt")


# ---- placements


def strided(dim, split_factor):
    from torch.distributed.tensor.placement_types import _StridedShard

    return _StridedShard(dim, split_factor=split_factor)


def values(name):
    shape = {"odd": (10, 7), "small": (2, 3), "deep": (5, 4, 6), "one": (1, 1), "flat": (13,)}[name]
    return torch.arange(torch.Size(shape).numel(), dtype=torch.float32).reshape(shape) + len(name)


def layouts(world):
    """name -> (mesh, the same as options, placements of torch, names of tensors)."""
    two = {2: (2, 1), 3: (3, 1), 8: (2, 4)}[world]
    both = ["odd", "small", "deep", "one"]
    return {
        "rows": ((world,), "shard(0)", [Shard(0)], [*both, "flat"]),
        "columns": ((world,), "shard(1)", [Shard(1)], both),
        "last": ((world,), "shard(-1)", [Shard(-1)], ["deep"]),
        "grid": (two, "shard(0),shard(1)", [Shard(0), Shard(1)], both),
        "nested": (two, "shard(0),shard(0)", [Shard(0), Shard(0)], [*both, "flat"]),
        "fsdp_tp": (two, "strided(0),shard(0)", [strided(0, two[1]), Shard(0)], [*both, "flat"]),
        "hsdp": (two, "replicate,shard(0)", [Replicate(), Shard(0)], [*both, "flat"]),
        "tp": (two, "replicate,shard(1)", [Replicate(), Shard(1)], both),
    }


def distributed(world, blank):
    state = {}
    for name, (shape, _, placements, tensors) in layouts(world).items():
        mesh = init_device_mesh("cpu", shape)
        for tensor in tensors:
            whole = values(tensor)
            state[f"{name}.{tensor}"] = dtensor(torch.zeros_like(whole) if blank else whole, mesh, placements)
    return state


def dtensor(whole, mesh, placements):
    if not any(hasattr(p, "split_factor") for p in placements):
        return distribute_tensor(whole, mesh, placements)
    # FSDP over TP, as fully_shard makes it: first the later dim, then this one over what each of its ranks has.
    dim = placements[0].dim
    inner = whole.chunk(mesh.size(1), dim)
    inner = inner[mesh.get_local_rank(1)] if mesh.get_local_rank(1) < len(inner) else whole.narrow(dim, 0, 0)
    local = inner.chunk(mesh.size(0), dim)
    local = local[mesh.get_local_rank(0)] if mesh.get_local_rank(0) < len(local) else inner.narrow(dim, 0, 0)
    return DTensor.from_local(local.contiguous(), mesh, placements, run_check=False, shape=whole.shape, stride=whole.stride())


def save_placements(rank, world, folder):
    dcp.save(distributed(world, False), checkpoint_id=folder)


def load_placements(rank, world, folder):
    state = distributed(world, True)
    wanted = distributed(world, False)
    dcp.load(state, checkpoint_id=folder)
    for key, value in state.items():
        check(torch.equal(value.to_local(), wanted[key].to_local()), f"{key} on rank {rank} differs")


def placements(dcpctl, world, scratch):
    whole = {f"{name}.{t}": values(t) for name, (_, _, _, tensors) in layouts(world).items() for t in tensors}
    dcp.save(whole, checkpoint_id=scratch / "whole", no_dist=True)
    on_ranks(world, save_placements, scratch / "torchs")
    theirs = boxes(scratch / "torchs")
    for name, (shape, text, _, _) in layouts(world).items():
        out = scratch / name
        run(dcpctl, "reshard", scratch / "whole", out, "--include", f"{name}.*", "--mesh", "x".join(map(str, shape)), "--placements", f"*={text}", "--no-sync")
        wanted = {key: chunks for key, chunks in theirs.items() if key.startswith(name + ".")}
        live = lambda of: {key: [c for c in chunks if 0 not in c[1]] for key, chunks in without_files(of).items()}
        same(live(boxes(out)), live(wanted), f"boxes of {name}")
        if "replicate" not in text:
            same({key: [c for c in chunks if 0 not in c[1]] for key, chunks in boxes(out).items()},
                 {key: [c for c in chunks if 0 not in c[1]] for key, chunks in wanted.items()}, f"ranks of {name}")  # fmt: skip
    # All of them in one: the source of one mesh is the layout of the next.
    run(dcpctl, "reshard", scratch / "whole", scratch / "like", "--like", scratch / "torchs", "--no-sync")
    same(without_files(boxes(scratch / "like")), without_files(theirs), "boxes of --like")
    on_ranks(world, load_placements, scratch / "like")


# ---- many ranks, by plan


def plan(dcpctl, world, scratch):
    from torch.testing._internal.distributed.fake_pg import FakeStore

    state = {f"t{rows}": torch.arange(rows * 2, dtype=torch.int32).reshape(rows, 2) for rows in (1, 63, 64, 65, 255, 256, 257, 1000)}
    dcp.save(state, checkpoint_id=scratch / "whole", no_dist=True)
    run(dcpctl, "reshard", scratch / "whole", scratch / "ours", "--world-size", world, "--no-sync")
    ours = boxes(scratch / "ours")
    from torch.distributed.tensor._utils import compute_local_shape_and_global_offset

    wanted = {key: set() for key in state}
    for rank in range(world):
        dist.init_process_group("fake", store=FakeStore(), rank=rank, world_size=world)
        mesh = init_device_mesh("cpu", (world,))
        for key, tensor in state.items():
            size, offset = compute_local_shape_and_global_offset(tensor.shape, mesh, [Shard(0)])
            if size[0] > 0:
                wanted[key].add((tuple(offset), tuple(size), f"__{rank}_0.distcp"))
        dist.destroy_process_group()
    for key in state:
        same([c for c in ours[key] if 0 not in c[1]], sorted(wanted[key]), f"boxes of {key} on {world} ranks")
    dcp.load(loaded := {key: torch.zeros_like(t) for key, t in state.items()}, checkpoint_id=scratch / "ours", no_dist=True)
    for key, tensor in state.items():
        check(torch.equal(loaded[key], tensor), f"{key} differs")


# ---- old torch


def flattened_as_23(state):
    """torch 2.3's traverse_state_dict: a dict or list without a tensor anywhere below it is one value."""

    def holds_tensor(value):
        below = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
        return isinstance(value, torch.Tensor) or any(holds_tensor(v) for v in below)

    flat = {}

    def walk(path, value):
        if not holds_tensor(value) or isinstance(value, torch.Tensor):
            flat[".".join(path)] = value
            return
        for key, v in value.items() if isinstance(value, dict) else enumerate(value):
            walk((*path, str(key)), v)

    for key, value in state.items():
        walk((key,), value)
    return flat


def torch23(dcpctl, scratch):
    state = {
        "model": {"w": torch.arange(12.0).reshape(4, 3), "note": "text"},
        "lr_scheduler": {"last_epoch": 3, "base_lrs": [0.1, 0.2], "deep": {"a": None, "b": {"c": True}}},
        "optim": {"state": {"w": {"step": torch.tensor(4.0), "flags": {"x": 1}}}, "param_groups": [{"lr": 0.1, "params": ["w"]}, {"lr": 0.2, "params": []}]},
        "mixed": [torch.ones(2), {"k": 5}, 7],
        "with_tensor_inside": {"pair": (1, torch.arange(3)), "twice": (torch.arange(3), torch.ones(1))},
        "epoch": 9,
    }
    dcp.save(state, checkpoint_id=scratch / "new", no_dist=True)
    wanted = flattened_as_23(state)
    torch.save(state, scratch / "state.pt")
    for command, source in (("reshard", "new"), ("convert", "state.pt")):
        out = scratch / command
        run(dcpctl, command, scratch / source, out, "--world-size", "2", "--for-torch", "2.0", "--no-sync")
        run(dcpctl, "verify", out)
        raw = (out / ".metadata").read_bytes()
        check(b"torch.distributed._shard.sharded_tensor.metadata" in raw, "TensorProperties is not named as torch 2.0 does")
        metadata = pickle.loads(raw)
        same(sorted(metadata.state_dict_metadata), sorted(wanted), f"{command}: keys")
        same(sorted(metadata.planner_data), sorted(wanted), f"{command}: keys of the planner data")
        for index, info in metadata.storage_data.items():
            if index.offset is None:
                with open(out / info.relative_path, "rb") as f:
                    f.seek(info.offset)
                    import io

                    got = torch.load(io.BytesIO(f.read(info.length)), weights_only=False)
                same(repr(got), repr(wanted[index.fqn]), f"{command}: {index.fqn}")
        # A newer torch looks for each leaf, finds none, and flattens as 2.3 did.
        blank = {"model": {"w": torch.zeros(4, 3), "note": ""}, "lr_scheduler": {"last_epoch": 0, "base_lrs": [], "deep": {"a": 1, "b": {"c": False}}}, "epoch": 0}
        dcp.load(blank, checkpoint_id=out, no_dist=True)
        same((blank["lr_scheduler"], blank["epoch"]), (state["lr_scheduler"], 9), f"{command}: dcp.load")
        check(torch.equal(blank["model"]["w"], state["model"]["w"]), f"{command}: model.w")


def main():
    dcpctl, what, *world = sys.argv[1:]
    torch.set_num_threads(1)  # ranks are forked: no thread may be there before
    dcpctl = os.path.abspath(dcpctl)
    with tempfile.TemporaryDirectory() as folder:
        {"fsdp": fsdp, "placements": placements, "plan": plan, "torch23": torch23}[what](dcpctl, *map(int, world), Path(folder))
    print("0 failures")


if __name__ == "__main__":
    main()
