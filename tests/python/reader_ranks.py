"""dcpctl.torch.Reader gives each rank what FileSystemReader gives it: on 2, 3 and 4 gloo ranks, into tensors that are placed in all ways. Each
rank hears of damage.

    reader_ranks.py WORLD-SIZE [CHECKPOINT...]
"""
import faulthandler
import logging
import os
import sys
import tempfile
import time
from datetime import timedelta
from pathlib import Path
from queue import Empty

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
import torch.multiprocessing as mp
from torch.distributed.checkpoint import CheckpointException, FileSystemReader
from torch.distributed.checkpoint.metadata import TensorStorageMetadata
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Replicate, Shard
from torch.distributed.tensor.placement_types import _StridedShard
from torch.distributed.tensor._utils import compute_local_shape_and_global_offset

import dcpctl
from dcpctl.torch import Reader
from equal import ROOT, checkpoints, copies, differences


def placed(shape, dtype, mesh, placements):
    """A tensor of the mesh to load into."""
    local, _offset = compute_local_shape_and_global_offset(shape, mesh, placements)
    data = torch.zeros(local, dtype=dtype)
    stride = torch.empty(shape, device="meta").stride()
    return DTensor.from_local(data, mesh, placements, run_check=False, shape=torch.Size(shape), stride=stride)


def ways(world):
    """How tensors are placed, and on which mesh."""
    flat = init_device_mesh("cpu", (world,))
    yield "plain", None, lambda dims: None
    yield "Shard(0)", flat, lambda dims: [Shard(0)] if dims > 0 else [Replicate()]
    yield "Shard(1)", flat, lambda dims: [Shard(1)] if dims > 1 else [Replicate()]
    if world == 4:
        mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))
        yield "Shard(0), Shard(1)", mesh, lambda dims: [Shard(0), Shard(1)] if dims > 1 else [Replicate(), Replicate()]
        yield "_StridedShard(0), Shard(0)", mesh, lambda dims: [_StridedShard(0, split_factor=2), Shard(0)] if dims > 0 else [Replicate(), Replicate()]
        yield "Replicate, Shard(0)", mesh, lambda dims: [Replicate(), Shard(0)] if dims > 0 else [Replicate(), Replicate()]


def destination(metadata, mesh, placements):
    state = {}
    for key, entry in metadata.state_dict_metadata.items():
        if not isinstance(entry, TensorStorageMetadata):
            state[key] = None
        elif mesh is None or placements(len(entry.size)) is None:
            state[key] = torch.zeros(entry.size, dtype=entry.properties.dtype)
        else:
            state[key] = placed(tuple(entry.size), entry.properties.dtype, mesh, placements(len(entry.size)))
    return state


def local(state):
    return {key: value.to_local() if isinstance(value, DTensor) else value for key, value in state.items()}


def on_all(fact):
    """Whether it is so on every rank: ranks that decide for themselves would wait for each other's collectives."""
    every = torch.tensor(int(fact))
    dist.all_reduce(every, dist.ReduceOp.MIN)
    return bool(every)


def loaded(path, reader, mesh, placements):
    """What each rank gets, or on all of them none."""
    try:
        state, why = destination(FileSystemReader(path).read_metadata(), mesh, placements), None
    except Exception as e:  # metadata that torch cannot read, a dtype that it cannot fill
        state, why = None, e
    if not on_all(state is not None):
        return None, why
    try:
        dcp.load(state, storage_reader=reader)
    except BaseException as e:
        state, why = None, e
    return (local(state), None) if on_all(state is not None) else (None, why)


def damaged(folder):
    """Checkpoints that cannot be loaded: the id that each rank is to hear, and where."""
    source = ROOT / "tests/data/fsdp2_ws4/ckpt"
    changed, lacking = (copies(source, Path(folder, name)) for name in ("changed", "lacking"))
    tensor = dcpctl.open(changed)["model.tok_embeddings.weight"]
    file, payload = changed / tensor.chunks[1].file, bytes(tensor[17:34].read())
    data = bytearray(file.read_bytes())
    data[data.index(payload) + 500] ^= 4
    file.write_bytes(data)
    (lacking / "__3_0.distcp").unlink()
    return [(path, dcpctl.verify(path).findings[0].id) for path in (changed, lacking)]


def heard_of(path, id):
    """What is wrong with how a rank hears of damage."""
    entry = dcpctl.open(ROOT / "tests/data/fsdp2_ws4/ckpt")["model.tok_embeddings.weight"]
    begin = time.monotonic()
    try:
        dcp.load({entry.key: torch.zeros(entry.shape)}, storage_reader=Reader(path))
    except CheckpointException as why:
        ids = [error.id for error, _trace in why.failures.values()]
        return [] if set(ids) == {id} and time.monotonic() - begin < 5 else [f"{path}: {ids} after {time.monotonic() - begin:.1f} s, expected {id}"]
    return [f"{path}: was loaded, expected {id}"]


def rank_main(rank, world, rendezvous, paths, bad, told):
    logging.disable(logging.CRITICAL)
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{rendezvous}", rank=rank, world_size=world, timeout=timedelta(seconds=60))
    faulthandler.enable()
    own, every = [], list(ways(world))
    for path in paths:
        for name, mesh, placements in every:
            expected, _why = loaded(path, FileSystemReader(path), mesh, placements)
            if expected is None:  # torch has no answer
                continue
            got, why = loaded(path, Reader(path), mesh, placements)
            if got is None:
                own.append(f"{path}, {name}, rank {rank} of {world}: {str(why)[-500:]}")
                continue
            own += [f"{path}, {name}, rank {rank} of {world}: {d}" for d in differences(expected, got)][:2]
            told.put((path.parent.name, name))
    for path, id in bad:
        own += heard_of(path, id)
    told.put(own)
    dist.barrier()
    dist.destroy_process_group()


def main(world, paths):
    """Each rank tells what it has compared, and what differs."""
    found, tried, ended = [], 0, 0
    with tempfile.TemporaryDirectory() as folder:
        queue = mp.get_context("spawn").Queue()
        spawned = mp.spawn(rank_main, (world, os.path.join(folder, "rendezvous"), paths, damaged(folder), queue), nprocs=world, join=False)
        while ended < world:
            try:
                got = queue.get(timeout=5)
            except Empty:
                spawned.join(timeout=0)  # raises what a rank has died of
                continue
            if isinstance(got, list):
                ended += 1
                found += got
            else:
                tried += 1
        spawned.join()
    print("\n".join(found))
    print(tried, "loads are equal to torch's")
    return 1 if found or not tried else 0


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), [Path(p) for p in sys.argv[2:]] or list(checkpoints())))
