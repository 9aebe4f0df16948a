"""dcpctl.torch.Reader gives each rank what FileSystemReader gives it: on 2, 3 and 4 gloo ranks, into tensors that are placed in all ways.

    reader_ranks.py [WORLD SIZE...]
"""
import faulthandler
import logging
import os
import sys
import tempfile
from datetime import timedelta

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
import torch.multiprocessing as mp
from torch.distributed.checkpoint import FileSystemReader
from torch.distributed.checkpoint.metadata import TensorStorageMetadata
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Replicate, Shard
from torch.distributed.tensor.placement_types import _StridedShard
from torch.distributed.tensor._utils import compute_local_shape_and_global_offset

from dcpctl.torch import Reader
from equal import checkpoints, differences


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


def loaded(path, reader, mesh, placements):
    state = destination(FileSystemReader(path).read_metadata(), mesh, placements)
    dcp.load(state, storage_reader=reader)
    return local(state)


def rank_main(rank, world, rendezvous, failures):
    logging.disable(logging.CRITICAL)
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{rendezvous}", rank=rank, world_size=world, timeout=timedelta(seconds=60))
    faulthandler.dump_traceback_later(1500, exit=True)
    own = []
    for path in checkpoints():
        try:
            FileSystemReader(path).read_metadata()
        except BaseException:  # what torch cannot read
            continue
        for name, mesh, placements in ways(world):
            try:
                expected = loaded(path, FileSystemReader(path), mesh, placements)
            except BaseException:
                expected = None
            try:
                got = loaded(path, Reader(path), mesh, placements)
            except BaseException as why:
                if expected is not None:
                    own.append(f"{path}, {name}, rank {rank} of {world}: {str(why)[-500:]}")
                continue
            if expected is not None:
                own += [f"{path}, {name}, rank {rank} of {world}: {d}" for d in differences(expected, got)][:2]
                failures.put((path.parent.name, name))
    failures.put(own)
    dist.barrier()
    dist.destroy_process_group()


def main(worlds):
    found, tried = [], 0
    for world in worlds:
        with tempfile.TemporaryDirectory() as folder:
            queue = mp.get_context("spawn").Queue()
            spawned = mp.spawn(rank_main, (world, os.path.join(folder, "rendezvous"), queue), nprocs=world, join=False)
            ended = 0
            while ended < world:
                got = queue.get(timeout=1500)
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
    sys.exit(main([int(w) for w in sys.argv[1:]] or [2, 3, 4]))
