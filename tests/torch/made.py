#!/usr/bin/env python3
"""torch loads the checkpoints that dcpctl makes of its own.

    made.py DCPCTL synthetic LAYOUT...   what the generator of `bench io` writes
    made.py DCPCTL saved MODE...         what `bench staging --save` writes, each of its own step
"""
import sys

import numpy as np
import torch
import torch.distributed.checkpoint as dcp

from case import Case, check, finish, loaded, read_safetensors, same
import describe


def synthetic(case, layout):
    """Shapes, boxes and values: dcp.load of the generated checkpoint equals torch.load of its consolidation."""
    folder = case.out / "ckpt"
    case.run("bench", "io", folder, "--generate-only", "--bytes", "3MB", "--world-size", "4", "--layout", layout, "--tensors", "5",
             "--dtype", "bfloat16")  # fmt: skip
    case.checkpoint = folder
    metadata = dcp.FileSystemReader(folder).read_metadata().state_dict_metadata
    state = loaded(folder)
    same(len(state), 5, "tensors")
    check(any(len(m.chunks) == 4 for m in metadata.values() if hasattr(m, "chunks")), "no tensor has four chunks")
    out, _, _ = case.consolidate("out.safetensors")
    written = read_safetensors(out)
    same(sorted(written), sorted(state), "keys")
    for key in state:
        same(describe.describe_tensor(written[key]), describe.describe_tensor(state[key]), key)
        check(len(written[key].unique()) > 100, f"{key} is hardly filled")


def noise(x):
    """splitmix64, as src/app/synthetic.h has it."""
    x = x + np.uint64(0x9E3779B97F4A7C15)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


def trained(number, step, shape, dtype):
    """Tensor `number` of the training loop after `step` (src/staging/train.h)."""
    keep, fixed = {torch.float32: (0x807FFFFF807FFFFF, 0x3F8000003F800000), torch.bfloat16: (0x807F807F807F807F, 0x3F803F803F803F80)}[dtype]
    count = int(np.prod(shape)) * dtype.itemsize
    with np.errstate(over="ignore"):
        stream = noise(np.array([1 ^ (number << 32)], np.uint64))
        words = (noise(stream + np.arange((count + 7) // 8, dtype=np.uint64)) & np.uint64(keep)) | np.uint64(fixed)
    data = words.view(np.uint8)[:count].copy()
    for at in range(0, count, 4096):
        data[at : at + 64] = 0x30 + step % 16
    return torch.from_numpy(data).view(dtype).reshape(shape)


def saved(case, mode):
    """Every checkpoint of a training loop holds its own step's bytes; the last one the model alone, in another dtype."""
    folder = case.out / "run"
    case.run("bench", "staging", "--device", "cpu", "--model", "tiny", "--optimizer", "--save", folder, "--modes", mode, "--steps", 7, "--save-every", 2,
             "--step-time", 2, "--keep-latest-k", 3, "--last-model-only", "--export-dtype", "float16", "--no-sync")  # fmt: skip
    same(sorted(p.name for p in (folder / mode).iterdir()), ["step-4", "step-6", "step-7"], "steps that are kept")
    full = dcp.FileSystemReader(folder / mode / "step-6").read_metadata().state_dict_metadata
    order = {key: number for number, key in enumerate(full)}  # the files hold tensors in the workload's order
    for step in (4, 6, 7):
        path = folder / mode / f"step-{step}"
        same(sorted(p.name for p in path.iterdir()), [".metadata", "__0_0.distcp"], "files")
        state = loaded(path)
        same(set(state), {k for k in full if step < 7 or k.startswith("model.")}, f"keys of step {step}")
        for key, tensor in state.items():
            properties = full[key].properties
            wanted = trained(order[key], step, tuple(full[key].size), properties.dtype)
            if step == 7:
                wanted = wanted.to(torch.float16)
            same(describe.describe_tensor(tensor), describe.describe_tensor(wanted), f"step {step}: {key}")


if __name__ == "__main__":
    torch.set_num_threads(1)
    dcpctl, what, *names = sys.argv[1:]
    for name in names:
        print(name)
        {"synthetic": synthetic, "saved": saved}[what](Case(dcpctl, "threads"), name)
    finish()
