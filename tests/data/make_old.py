#!/usr/bin/env python3
"""make_old.py CASE: writes CASE/ckpt with the torch it runs under, one too old for make.py. Then, under the torch of make.py:
`make.py --expected-only CASE`.

    torch113  torch 1.13.1: other module names, no flattening, a file for each item, items without byteorder, column-major items
    torch21   torch 2.1.2: TensorProperties under its old name, a dict of scalars is one item
    torch23   torch 2.3.1: TensorProperties under its new name, float8
"""
import dataclasses
import os
import shutil
import sys
import tempfile

# torch 1.13 has a dataclass instance as a default, which Python 3.11 takes only if it can be hashed.
plain_dataclass = dataclasses.dataclass
dataclasses.dataclass = lambda cls=None, **how: (
    plain_dataclass(cls, **how, **({"unsafe_hash": True} if cls and cls.__name__ == "TensorProperties" else {}))
)

import torch  # noqa: E402
import torch.distributed as dist
import torch.multiprocessing
from torch.distributed._shard.metadata import ShardMetadata
from torch.distributed._shard.sharded_tensor import Shard, init_from_local_shards

try:
    import torch.distributed.checkpoint as dcp
except ImportError:
    import torch.distributed._shard.checkpoint as dcp

HERE = os.path.dirname(os.path.abspath(__file__))


def filled(*shape, start=0.0):
    return torch.arange(start, start + torch.Size(shape).numel()).reshape(shape)


def rank_main(rank, folder):
    os.chdir(folder)
    dist.init_process_group("gloo", init_method=f"file://{folder}/rendezvous", rank=rank, world_size=2)
    rows = [4, 3][rank]
    shard = Shard(filled(rows, 5, start=rank * 20.0), ShardMetadata([rank * 4, 0], [rows, 5], f"rank:{rank}/cpu"))
    state = {
        "w": init_from_local_shards([shard], 7, 5),
        "bias": filled(3).to(torch.bfloat16),
        "transposed": filled(2, 3).t(),
        "scalar": torch.tensor(3),
        "nested": {"t": filled(2), "inner": {"n": 1}},
        "lr_scheduler": {"last_epoch": 3, "base_lrs": [0.1]},
        "empty": {},
        "epoch": 2,
    }
    if hasattr(torch, "float8_e5m2") and torch.__version__ >= "2.3":
        state["f8"] = filled(4).to(torch.float8_e5m2)
    save = getattr(dcp, "save", None) or dcp.save_state_dict
    save(state, storage_writer=dcp.FileSystemWriter("ckpt"))
    dist.barrier()
    os._exit(0)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as scratch:
        torch.multiprocessing.spawn(rank_main, (scratch,), 2)
        target = os.path.join(HERE, sys.argv[1], "ckpt")
        shutil.rmtree(target, ignore_errors=True)
        shutil.copytree(os.path.join(scratch, "ckpt"), target)
