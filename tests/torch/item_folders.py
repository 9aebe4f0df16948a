#!/usr/bin/env python3
"""item_folders.py DCPCTL jobs|random|own: folders of torch_checkpointing that dcpctl writes, as the package itself loads them.

jobs: from checkpoints of all kinds, for 1 to 5 ranks; CheckpointManager.load(strict=True) on 1, 2, 3, 5 ranks and a 2 x 2 grid gives what
the source holds, to the bit, and so does the package's own consolidation of a model in safetensors. What dcpctl reads back is the source.
random: states with random shapes, ranks and placements, both ways.
own: DTensors for jobs of one layout (--device-type cpu, gloo): such a job's metadata is the same, and it reads its own files, objects included.
Needs torch_checkpointing 0.1 beside torch (.venv-maps); without it exits 77.
"""
import importlib.util
import io
import json
import math
import pickle
import random
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import rank_files  # also puts .venv-maps on the path
import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from case import DATA, check, failures
from rank_files import run, same, sharded
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Replicate, Shard
from torch.distributed.tensor.placement_types import _StridedShard

JOBS = {  # name: ranks, mesh, placements
    "1": (1, (1,), [Shard(0)]),
    "2": (2, (2,), [Shard(0)]),
    "3": (3, (3,), [Shard(0)]),
    "5": (5, (5,), [Shard(0)]),
    "2x2": (4, (2, 2), [Shard(0), Shard(1)]),
}


def leaves(tree, path=()):
    """Tensors and values by path, as the package's walk meets them."""
    if isinstance(tree, (dict, list)):
        for key, value in tree.items() if isinstance(tree, dict) else enumerate(tree):
            yield from leaves(value, (*path, key))
    else:
        yield path, tree


def mapped(tree, fn):
    if isinstance(tree, dict):
        return {key: mapped(value, fn) for key, value in tree.items()}
    if isinstance(tree, list):
        return [mapped(value, fn) for value in tree]
    return fn(tree)


def plain(tree):
    """Objects that compare by identity become what they hold."""
    return mapped(tree, lambda v: v.getvalue() if isinstance(v, io.BytesIO) else v)


def zeros(tree):
    return mapped(tree, lambda v: torch.zeros_like(v) if isinstance(v, torch.Tensor) else v)


def placed(tree, mesh, placements):
    """As a job has it: parts of tensors with dims."""

    def place(t):
        if not isinstance(t, torch.Tensor) or t.dim() == 0:
            return t
        local = sharded(t.view(torch.uint8) if t.element_size() == 1 else t, mesh, placements)
        if local.dtype == t.dtype:
            return local
        return DTensor.from_local(local.to_local().view(t.dtype), mesh, local.placements, run_check=False, shape=t.shape, stride=t.stride())

    return mapped(tree, place)


def whole(tree):
    def join(t):
        if not isinstance(t, DTensor):
            return t
        if t.element_size() > 1:
            return t.full_tensor()
        bits = t.to_local().view(torch.uint8)
        return DTensor.from_local(bits, t.device_mesh, t.placements, run_check=False, shape=t.shape, stride=t.stride()).full_tensor().view(t.dtype)

    return mapped(tree, join)


def manager(names):
    from torch_checkpointing import ItemSpec
    from torch_checkpointing.default_resharder import DefaultResharder

    config = rank_files.torch_checkpointing_config()
    config.items = {name: ItemSpec(resharder=DefaultResharder(), required=False) for name in names}
    return config.build()


def with_tensors(state):
    return [name for name, item in state.items() if any(isinstance(v, torch.Tensor) for _, v in leaves(item))]


def load_all(rank, world, folder, jobs):
    """For each job of this many ranks and each folder: what is loaded, whole, from rank 0."""
    dist.init_process_group("gloo", init_method=f"file://{folder}/store", rank=rank, world_size=world)
    for job in jobs:
        mesh = init_device_mesh("cpu", JOBS[job][1])
        for wanted in sorted(Path(folder).glob("*.wanted")):
            state = torch.load(wanted, weights_only=False)
            items = with_tensors(state)
            if int(wanted.with_suffix(".ranks").read_text()) < world:
                state = {name: state[name] for name in items}  # a file for each rank of the job is not there
            into = {name: placed(zeros(item), mesh, JOBS[job][2]) if name in items else item for name, item in state.items()}
            got = manager(items).load(str(wanted.with_suffix("")), into, strict=True)
            got = whole(dict(got))
            if rank == 0:
                torch.save(got, Path(folder, f"{wanted.stem}.{job}.got"))
            dist.barrier()
    dist.destroy_process_group()


def spawn(function, world, *arguments):
    torch.multiprocessing.start_processes(function, args=(world, *arguments), nprocs=world, start_method="fork")


def load_on_jobs(folder, jobs):
    for world in sorted({JOBS[job][0] for job in jobs}):
        Path(folder, "store").unlink(missing_ok=True)
        spawn(load_all, world, str(folder), [job for job in jobs if JOBS[job][0] == world])
    for wanted in sorted(folder.glob("*.wanted")):
        state = torch.load(wanted, weights_only=False)
        for job in jobs:
            got = torch.load(folder / f"{wanted.stem}.{job}.got", weights_only=False)
            for name in got:
                same(plain(got[name]), plain(state[name]), f"{wanted.stem}, {job} ranks: {name}")


def want(folder, name, state, ranks):
    torch.save(state, folder / f"{name}.wanted")
    (folder / f"{name}.ranks").write_text(str(ranks))


def consolidated(dcpctl, source, scratch, *options):
    out = scratch / "whole.pt"
    out.unlink(missing_ok=True)
    run(dcpctl, "consolidate", source, out, "--no-sync", *options)
    return torch.load(out, weights_only=False)


def sources(scratch):
    """Checkpoints, and the options that select of each what is a state dict of items."""
    torch.manual_seed(3)
    model = {
        "embed.weight": torch.randn(11, 6),
        "layers.0.w": torch.randn(7, 3).to(torch.bfloat16),
        "one": torch.randn(1, 4),
        "deep": torch.randint(0, 99, (5, 4, 2)),
        "f8": torch.arange(40.0).reshape(8, 5).to(torch.float8_e4m3fn),
        "scalar": torch.tensor(2.5),
        "none": torch.zeros(0, 3),
    }
    model["tied"] = model["embed.weight"]
    state = {"step": torch.tensor(3.0), "exp_avg": torch.randn(11, 6)}
    optimizer = {"state": {"embed.weight": state}, "param_groups": [{"lr": 1e-3, "betas": (0.9, 0.95), "params": ["embed.weight"]}]}
    run_state = {"model": model, "optimizer": optimizer, "train_state": {"step": 5}, "seed": 7, "rng": torch.arange(9, dtype=torch.uint8)}
    dcp.save(run_state, checkpoint_id=scratch / "dcp", no_dist=True)
    torch.save(run_state, scratch / "run.pt")
    flat = {key: t.clone() for key, t in model.items()}
    from safetensors.torch import save_file

    save_file(flat, scratch / "model.safetensors")
    dcp.save(flat, checkpoint_id=scratch / "flat", no_dist=True)
    yield "dcp", scratch / "dcp", []
    yield "torch", scratch / "run.pt", []
    yield "safetensors", scratch / "model.safetensors", []
    yield "flat", scratch / "flat", []
    for name in ["fsdp2_ws4", "titan_like", "tp_2x2", "megatron_like"]:
        yield name, DATA / name / "ckpt", []
    yield "app_state", DATA / "app_state/ckpt", ["--root", "app"]  # its items are not at the top level
    for rank in range(3):
        with Rank(scratch, rank, (3,)) as job:
            split = lambda tree, job=job: mapped(tree, lambda t: part_of(t, job, [Shard(0)]) if isinstance(t, torch.Tensor) and t.dim() > 0 else t)
            parts = {"model": split(model), "optim": split(optimizer), "extra_state": {"lr_scheduler": {"last_epoch": rank}}}
            rank_files.save_as_verl(scratch / "verl", rank, 3, parts)
    yield "verl", scratch / "verl", []
    subprocess.run([sys.executable, DATA / "own_model/llama.py", scratch / "llama"], check=True)
    yield "map", scratch / "llama", ["--map", "llama.torchtitan"]  # as torchtitan names it


def without_states(tree):
    return {key: without_states(value) for key, value in tree.items() if not str(key).endswith("_extra_state")} if isinstance(tree, dict) else tree


def items_of(state, report):
    """The consolidated state dict as the items that dcpctl says: flat keys are their parts."""
    names = {item["name"] for item in report["items"]} - {report.get("model_item")}
    items = {}
    for key, value in state.items():
        first, _, rest = key.partition(".")
        if key in names:
            items[key] = value
        elif first in names:
            items.setdefault(first, {})[rest] = value
        else:
            items.setdefault(report["model_item"], {})[key] = value
    return items


def jobs(dcpctl):
    with tempfile.TemporaryDirectory() as directory:
        scratch, folder = Path(directory, "in"), Path(directory, "out")
        scratch.mkdir()
        folder.mkdir()
        for name, source, options in list(sources(scratch)):
            state = consolidated(dcpctl, source, scratch, *options)
            for ranks in [1, 5]:
                for form in ["torch", "safetensors"]:
                    own = f"{name}-{form}-{ranks}"
                    report = scratch / "report.json"
                    more = ["--model-form", form, "--exclude", "*_extra_state", "--allow-unmatched"] if form != "torch" else []
                    run(dcpctl, "convert", source, folder / own, "--to", "torch_checkpointing", "--world-size", ranks, "--no-sync", "--report", report, *options, *more)
                    items = items_of(without_states(state) if more else state, json.loads(report.read_text()))
                    want(folder, own, items, ranks)
                    run(dcpctl, "verify", folder / own)
                    back = consolidated(dcpctl, folder / own, scratch)
                    for item in items:
                        same(plain(rank_sorted(back.get(item))), plain(rank_sorted(items[item])), f"{own} read back: {item}")
                    if form == "safetensors":
                        package_consolidates(folder / own, items, scratch / own)
        load_on_jobs(folder, list(JOBS))


def rank_sorted(tree):
    if isinstance(tree, dict):
        return {key: rank_sorted(tree[key]) for key in sorted(tree, key=str)}
    return [rank_sorted(value) for value in tree] if isinstance(tree, list) else tree


def package_consolidates(folder, items, out):
    from safetensors.torch import load_file
    from torch_checkpointing.hf.consolidation import consolidate_hf_safetensors_checkpoint
    from torch_checkpointing.storage.filesystem import LocalFileSystemStorageConfig

    report_items = pickle.loads((folder / "metadata.pkl").read_bytes())["metadata"]
    for name, item in report_items.items():
        if item["rank_to_layout_info"][0] is None:
            continue
        consolidate_hf_safetensors_checkpoint(str(folder), output_dir=str(out), item_key=name, storage_config=LocalFileSystemStorageConfig(use_direct_io=False))
        got = {}
        for file in sorted(out.glob(f"{name}*.safetensors")):
            got |= load_file(file)
        wanted = {".".join(map(str, path)): t for path, t in leaves(items[name]) if isinstance(t, torch.Tensor)}
        same({key: got[key] for key in sorted(got)}, {key: wanted[key] for key in sorted(wanted)}, f"{folder.name} consolidated")


def own(dcpctl):
    """A job of the layout that the files were written for."""
    with tempfile.TemporaryDirectory() as directory:
        scratch = Path(directory)
        dcp.save(run_of_a_job(), checkpoint_id=scratch / "dcp", no_dist=True)
        for name, mesh, dims, rules in LAYOUTS:
            options = [word for rule in rules for word in ("--placements", rule)]
            run(dcpctl, "reshard", scratch / "dcp", scratch / name, "--to", "torch_checkpointing", "--device-type", "cpu", "--mesh", mesh, "--mesh-dims", dims, *options, "--no-sync")
            run(dcpctl, "diff", scratch / "dcp", scratch / name)
        spawn(load_own, 4, str(scratch))
        for name, *_ in LAYOUTS:
            wanted = rank_sorted(run_of_a_job())
            for rank in range(4):
                got = torch.load(scratch / f"{name}.{rank}.got", weights_only=False)
                same(rank_sorted(got), wanted, f"{name}: what rank {rank} loads of its own files")


LAYOUTS = [
    ("fsdp", "4", "fsdp", ["model.*=shard(0)", "optimizer.*exp_avg=shard(0)"]),
    ("grid", "2x2", "dp,tp", ["model.*=strided(0),shard(0)", "optimizer.*exp_avg=strided(0),shard(0)"]),
    ("hybrid", "2x2", "ddp,fsdp", ["model.*=replicate,shard(0)", "optimizer.*exp_avg=replicate,shard(0)"]),
]


def run_of_a_job():
    torch.manual_seed(5)
    model = {"embed.weight": torch.randn(16, 6), "norm": torch.randn(8).to(torch.bfloat16)}
    state = {key: {"step": torch.tensor(3.0), "exp_avg": t.float() * 2} for key, t in model.items()}
    groups = [{"lr": 0.25, "betas": [0.9, 0.95], "params": list(model)}]
    return {"model": model, "optimizer": {"state": state, "param_groups": groups}, "rng": torch.arange(5, dtype=torch.uint8), "train": {"step": 5}}


def load_own(rank, world, folder):
    dist.init_process_group("gloo", init_method=f"file://{folder}/store", rank=rank, world_size=world)
    placements = {"fsdp": [Shard(0)], "grid": [_StridedShard(0, split_factor=2), Shard(0)], "hybrid": [Replicate(), Shard(0)]}
    for name, shape, dims, _ in LAYOUTS:
        mesh = init_device_mesh("cpu", tuple(map(int, shape.split("x"))), mesh_dim_names=tuple(dims.split(",")))

        def place(t, mesh=mesh, name=name):
            if not isinstance(t, torch.Tensor) or t.dim() == 0:
                return t
            local = torch.zeros(t.shape[0] // (2 if name == "hybrid" else 4), *t.shape[1:], dtype=t.dtype)
            return DTensor.from_local(local, mesh, placements[name], run_check=False, shape=t.shape, stride=t.stride())

        state = zeros(run_of_a_job())
        into = {item: mapped(value, place) if item in ("model", "optimizer") else value for item, value in state.items()}
        into["optimizer"]["param_groups"][0]["lr"] = 0.5  # which only its own file can change
        job = manager(["model", "optimizer"])
        check(job._metadata_manager is not None, "a job that reshards")
        written = pickle.loads(Path(folder, name, "metadata.pkl").read_bytes())
        items = job._schema.build_items(into, rank=rank)
        local = {key: item.resharder.extract_sharding_metadata(key, item.value) for key, item in items.items() if key in ("model", "optimizer")}
        from torch_checkpointing.distributed_metadata import DistributedMetadata

        source = DistributedMetadata.from_dict(written)
        for key, paths in local.items():
            for path, metadata in paths.items():
                groups = source.metadata[key].nested_path_to_metadata[path]
                check([g.sharding_metadata for g in groups] == [metadata] and groups[0].ranks == tuple(range(world)), f"{name}, {key} {path}: {groups}, the job has {metadata}")
            check(not items[key].resharder.should_reshard(source.metadata[key], paths), f"{name}: {key} is resharded")
        got = job.load(str(Path(folder, name)), into, strict=True)
        torch.save(mapped(dict(got), lambda t: t.full_tensor() if isinstance(t, DTensor) and t.placements[0] == Shard(0) and len(t.placements) == 1 else joined(t)), Path(folder, f"{name}.{rank}.got"))
        dist.barrier()
    dist.destroy_process_group()


def joined(t):
    """Of a hybrid or strided DTensor: its parts from all ranks, in the order of the tensor."""
    if not isinstance(t, DTensor):
        return t
    parts = [torch.zeros_like(t.to_local()) for _ in range(dist.get_world_size())]
    dist.all_gather(parts, t.to_local().contiguous())
    order = [0, 2, 1, 3] if len(t.placements) == 2 and not isinstance(t.placements[0], Replicate) else [0, 1]
    return torch.cat([parts[r] for r in order])


MESHES = [[1], [2], [3], [4], [5], [6], [2, 2], [2, 3], [3, 2], [1, 4], [1, 2, 3], [2, 1, 3]]


class Rank:
    """One rank of a job that this process stands for: it computes and reads its parts, and never hears of another."""

    def __init__(self, folder, rank, shape):
        self.rank, self.shape = rank, tuple(shape)
        self.store = Path(folder, "store")

    def __enter__(self):
        world = math.prod(self.shape)
        dist.init_process_group("fake", store=dist.FileStore(str(self.store), world), rank=self.rank, world_size=world)
        return init_device_mesh("cpu", self.shape)

    def __exit__(self, *_):
        dist.destroy_process_group()
        self.store.unlink(missing_ok=True)


def part_of(t, mesh, placements):
    """A DTensor, of the part that torch's own split gives this rank."""
    local = t
    for dim, placement in enumerate(placements):
        if not isinstance(placement, Replicate):
            local = placement._split_tensor(local, mesh.size(dim), with_padding=False, contiguous=True)[0][mesh.get_coordinate()[dim]]
    return DTensor.from_local(local.clone(), mesh, placements, run_check=False, shape=t.shape, stride=t.stride())


def random_placements(choose, mesh, dims):
    """As dcpctl's rule, and as torch's. A strided shard leaves room for the later ones of its dim."""
    chosen = [(choose.choice(["shard", "strided", "replicate"]), choose.randrange(dims)) for _ in mesh]
    placements = []
    for n, (kind, dim) in enumerate(chosen):
        later = math.prod(size for size, other in zip(mesh[n + 1 :], chosen[n + 1 :]) if other[0] != "replicate" and other[1] == dim)
        placements.append({"shard": Shard(dim), "strided": _StridedShard(dim, split_factor=later), "replicate": Replicate()}[kind])
    return ",".join(kind if kind == "replicate" else f"{kind}({dim})" for kind, dim in chosen), placements


def save_as_package(folder, state, placements, mesh, form):
    """What torch_checkpointing saves of such a job, one rank after the other: it merges the metadata of all ranks, and each writes its files."""
    from safetensors.torch import save_file
    from torch_checkpointing.checkpoint_layout import LayoutInfo, SafetensorsSerialization
    from torch_checkpointing.distributed_metadata import DistributedItemMetadata, DistributedMetadata
    from torch_checkpointing.metadata_manager import DefaultMetadataManager

    folder.mkdir()
    ranks, layouts, of_ranks = range(math.prod(mesh)), {name: dict.fromkeys(range(math.prod(mesh))) for name in state}, {}
    for rank in ranks:
        with Rank(folder, rank, mesh) as job:
            parts = {name: {key: part_of(t, job, placements[name][key]) if t.dim() > 0 else t for key, t in item.items()} for name, item in state.items()}
            job = manager(list(state))
            items = job._schema.build_items(parts, rank=rank)
            of_ranks[rank] = {name: item.resharder.extract_sharding_metadata(name, item.value) for name, item in items.items()}
            for name, item in parts.items():
                if form == "safetensors" and name == "model":
                    layouts[name][rank] = LayoutInfo(f"model_{rank}.safetensors", SafetensorsSerialization())
                    save_file({key: t.to_local() if isinstance(t, DTensor) else t for key, t in item.items()}, folder / f"model_{rank}.safetensors")
                else:
                    torch.save(item, folder / f"{name}_{rank}.pt")
    merged = DefaultMetadataManager._merge_object_metadata_from_ranks(None, of_ranks)
    listed = {name: DistributedItemMetadata(nested_path_to_metadata=paths, rank_to_layout_info=layouts[name]) for name, paths in merged.items()}
    (folder / "metadata.pkl").write_bytes(pickle.dumps(DistributedMetadata(metadata=listed, world_size=len(ranks)).to_dict()))


def random_states(dcpctl):
    """200 states, five as the items of each checkpoint, both ways: what dcpctl writes gives the ranks of any job their parts, and what the package
    saves is read as it was."""
    torch.manual_seed(7)
    choose = random.Random(7)
    with tempfile.TemporaryDirectory() as directory:
        scratch = Path(directory)
        for n in range(40):
            mesh, form = choose.choice(MESHES), choose.choice(["torch", "safetensors"])
            state, placements, options = {name: {} for name in ["model", "a", "b", "c", "d"]}, {}, []
            for name, item in state.items():
                placements[name] = {}
                for t in range(3):
                    shape = [choose.randrange(8) for _ in range(choose.randrange(4))]
                    item[f"t{t}"] = torch.randn(shape).to(choose.choice([torch.float32, torch.bfloat16, torch.float64]))
                    if shape:
                        rule, placements[name][f"t{t}"] = random_placements(choose, mesh, len(shape))
                        options += ["--placements", f"{name}.t{t}={rule}"]
            torch.save(state, scratch / "state.pt")
            what = f"{n}: mesh {mesh}, {form}, {options}"
            own, theirs = scratch / "own", scratch / "theirs"
            run(dcpctl, "reshard", scratch / "state.pt", own, "--to", "torch_checkpointing", "--model-form", form, "--mesh", "x".join(map(str, mesh)), *options, "--no-sync", "-q", "--force")
            save_as_package(theirs, state, placements, mesh, form)
            for folder in (own, theirs):
                same(rank_sorted(consolidated(dcpctl, folder, scratch)), rank_sorted(state), f"{folder.name}, {what}")
            shutil.rmtree(theirs)
            job, (world, shape, split) = choose.choice(list(JOBS.items()))
            for rank in range(world):
                with Rank(scratch, rank, shape) as of:
                    place = lambda t, of=of, split=split: part_of(t, of, [p if p.dim < t.dim() else Replicate() for p in split]) if t.dim() > 0 else t
                    wanted = mapped(state, place)
                    got = manager(list(state)).load(str(own), mapped(wanted, torch.zeros_like), strict=True)
                    local = lambda tree: mapped(tree, lambda t: t.to_local() if isinstance(t, DTensor) else t)
                    same(rank_sorted(local(dict(got))), rank_sorted(local(wanted)), f"rank {rank} of job {job}, {what}")


def main():
    dcpctl, *what = sys.argv[1:]
    if importlib.util.find_spec("torch_checkpointing") is None:
        print("no torch_checkpointing beside torch")
        return 77
    torch.set_num_threads(1)  # ranks are forked: no thread may be there before
    for name in what:
        {"jobs": jobs, "own": own, "random": random_states}[name](dcpctl)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
