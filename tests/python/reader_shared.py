"""Reader(share="replicas"): each rank gets what it gets without, no byte of a file is read twice, and an error of one rank is what all report.

    reader_shared.py WORLD-SIZE
"""
import logging
import os
import sys
import tempfile
import time
import traceback
import warnings
from datetime import timedelta
from pathlib import Path

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
import torch.multiprocessing as mp
from torch.distributed.checkpoint import CheckpointException, DefaultLoadPlanner
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Replicate, Shard

import dcpctl
from dcpctl.torch import Reader, save
from equal import ROOT, differences
from reader_ranks import damaged, destination, local

warnings.simplefilter("ignore")
CHECKPOINTS = [ROOT / "tests/data" / name / "ckpt" for name in ("fsdp2_ws4", "plain_odd", "titan_like", "noflatten") if name != "plain_odd" or hasattr(torch, "bcomplex32")]
LARGE = 24 << 20  # bytes of a tensor, more than a buffer holds


def loaded(path, mesh, placements, **options):
    state = destination(Reader(path).read_metadata(), mesh, placements)
    dcp.load(state, storage_reader=Reader(path, **options))
    return local(state)


def ways(world):
    flat = init_device_mesh("cpu", (world,))
    yield "plain", None, lambda dims: None
    yield "Replicate", flat, lambda dims: [Replicate()]
    yield "Shard(0)", flat, lambda dims: [Shard(0)] if dims > 0 else [Replicate()]
    if world == 4:
        mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("replicas", "shards"))
        yield "Replicate, Shard(0)", mesh, lambda dims: [Replicate(), Shard(0)] if dims > 0 else [Replicate(), Replicate()]


def bytes_read():
    """By this process, of files and of nothing else that is large: sockets are read by other calls."""
    return int(dict(line.split(": ") for line in Path("/proc/self/io").read_text().splitlines())["rchar"])


def compare(world):
    for path in CHECKPOINTS:
        for name, mesh, placements in ways(world):
            expected = loaded(path, mesh, placements)
            got = loaded(path, mesh, placements, share="replicas")
            yield from (f"{path}, {name}, rank {dist.get_rank()} of {world}: {d}" for d in differences(expected, got))


def count_bytes(path, world):
    """Everything on every rank: what all ranks together read of files, over what the files hold."""
    held = sum(f.stat().st_size for f in path.iterdir())
    for share, least, most in ((None, world, 1.2 * world), ("replicas", 1, 1.05)):
        state = {"a": torch.zeros(LARGE // 4), "b": torch.zeros(LARGE // 4), "c": torch.zeros(LARGE // 4), "few": torch.zeros(3)}
        before = bytes_read()
        dcp.load(state, storage_reader=Reader(path, share=share))
        read = torch.tensor(bytes_read() - before)
        dist.all_reduce(read)
        if not least <= read.item() / held <= most:
            yield f"share={share}: {world} ranks read {read.item()} bytes of {held}"
        if state["b"][-1] != LARGE // 4 - 1 or state["few"].tolist() != [1, 1, 1]:
            yield "other values"


class Refuses(DefaultLoadPlanner):
    def resolve_tensor(self, item):
        if dist.get_rank() == 1:
            raise ValueError("no such tensor here")
        return super().resolve_tensor(item)


def one_error(bad):
    """What one rank runs into is what each reports."""
    for path, id in bad:
        begin = time.monotonic()
        try:
            dcp.load({"model.tok_embeddings.weight": torch.zeros(67, 18)}, storage_reader=Reader(path, share="replicas"))
            yield f"{path}: was loaded"
        except CheckpointException as why:
            told = [getattr(error, "id", error) for error, _trace in why.failures.values()]
            if told != [id] * dist.get_world_size() or time.monotonic() - begin > 5:
                yield f"{path}: {told} after {time.monotonic() - begin} s, expected {id}"
    try:
        dcp.load({"model.tok_embeddings.weight": torch.zeros(67, 18)}, storage_reader=Reader(CHECKPOINTS[0], share="replicas"), planner=Refuses())
        yield "was loaded"
    except CheckpointException as why:
        if {str(error) for error, _trace in why.failures.values()} != {"no such tensor here"}:
            yield f"{why.failures}"


def unlike(world):
    """Ranks that load different things, in groups of their own, load together again; their other groups still come about."""
    tensor = "model.tok_embeddings.weight"
    expected = dcpctl.open(CHECKPOINTS[0])[tensor].torch()
    for turn in range(3):
        for mine in ({tensor: torch.zeros(67, 18)} if dist.get_rank() == turn else {"model.norm.weight": torch.zeros(18)}, {tensor: torch.zeros(67, 18)}):
            dcp.load(mine, storage_reader=Reader(CHECKPOINTS[0], share="replicas", timeout=20))
            if tensor in mine and not torch.equal(mine[tensor], expected):
                yield f"rank {dist.get_rank()}, turn {turn}: other values"
    halves = [dist.new_group([n for n in range(world) if n % 2 == half]) for half in (0, 1)]
    group = halves[dist.get_rank() % 2]
    for part in (group, None) if dist.get_rank() % 2 else (group, group, None):
        mine = {tensor: torch.zeros(67, 18)}
        dcp.load(mine, storage_reader=Reader(CHECKPOINTS[0], share="replicas", timeout=20, process_group=part), process_group=part)
        if not torch.equal(mine[tensor], expected):
            yield f"rank {dist.get_rank()}, in a group: other values"
    dist.barrier(dist.new_group(range(world)))


def rank_main(rank, world, folder, bad, told):
    logging.disable(logging.CRITICAL)
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder}/rendezvous", rank=rank, world_size=world, timeout=timedelta(seconds=60))
    found = []
    try:
        found += compare(world)
        found += count_bytes(Path(folder, "large"), world)
        found += one_error(bad)
        found += unlike(world)
    except BaseException:
        found.append(traceback.format_exc())
    told.put(found)
    dist.barrier()
    dist.destroy_process_group()


def main(world):
    with tempfile.TemporaryDirectory() as folder:
        numbers = torch.arange(LARGE // 4, dtype=torch.float32)
        save({"a": numbers, "b": numbers.clone(), "c": numbers.clone(), "few": torch.ones(3)}, Path(folder, "large"), no_dist=True)
        queue = mp.get_context("spawn").SimpleQueue()
        spawned = mp.spawn(rank_main, (world, folder, damaged(folder), queue), nprocs=world, join=False)
        found = [text for _rank in range(world) for text in queue.get()]
        spawned.join()
    print("\n".join(found))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1])))
