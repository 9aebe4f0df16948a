#!/usr/bin/env python3
"""What dcpctl extract takes out of a checkpoint against what torch and numpy make of the file, and of the state dict that torch loads.

    extract.py DCPCTL files|slices|stats...
"""
import io
import json
import math
import random
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy

from case import DATA, check, dcp, describe, finish, loaded, same, torch

from safetensors.torch import load
from torch.distributed.checkpoint.state_dict_loader import _load_state_dict

CASES = ["fsdp2_ws4", "titan_like", "plain_odd", "zstd", "nocrc", "noflatten", "app_state", "lightning_like"]
NUMPY_HAS = {torch.float64, torch.float32, torch.float16, torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8, torch.bool, torch.complex64}


def dcpctl(*arguments):
    """What it writes to stdout."""
    result = subprocess.run([sys.argv[1], "extract", *map(str, arguments), "-q"], capture_output=True, stdin=subprocess.DEVNULL)
    if result.returncode != 0:
        sys.exit(f"{arguments}: exit {result.returncode}\n{result.stdout}{result.stderr}")
    return result.stdout


def state_of(folder):
    """{key: tensor or object}, flat, as torch loads it; None: this torch cannot."""
    try:
        reader = dcp.FileSystemReader(folder)
        state = loaded(folder)
        objects = {key: None for key, m in reader.read_metadata().state_dict_metadata.items() if not hasattr(m, "size")}
        planner = dcp.DefaultLoadPlanner(flatten_state_dict=False, flatten_sharded_tensors=False)
        _load_state_dict(objects, storage_reader=dcp.FileSystemReader(folder), planner=planner, no_dist=True)
        return {**state, **objects}
    except Exception:
        return None


def plain_tensors(state):
    return {k: v for k, v in state.items() if type(v) is torch.Tensor and v.layout is torch.strided and not v.is_quantized}


def equal(a, b):
    """Bits, with dtype and shape."""
    raw = lambda t: t.clone(memory_format=torch.contiguous_format).flatten().view(torch.uint8) if t.numel() else torch.zeros(0, dtype=torch.uint8)
    return a.dtype == b.dtype and a.shape == b.shape and bool(torch.equal(raw(a), raw(b)))


def chosen(cases=CASES, most=12):
    for name in cases:
        folder = DATA / name / "ckpt"
        state = state_of(folder)
        if state is not None:
            keys = sorted(state)
            yield name, folder, state, random.Random(name).sample(keys, min(most, len(keys)))


def files(scratch):
    tried = 0
    for name, folder, state, keys in chosen():
        tensors = plain_tensors(state)
        for key in keys:
            tried += 1
            out = scratch / "x.pt"
            out.unlink(missing_ok=True)
            dcpctl(folder, key, "-o", out)
            streamed = dcpctl(folder, key, "--format", "pt", "-o", "-")
            same(streamed == out.read_bytes(), True, f"{name} {key!r}: .pt on stdout is the file")
            got = torch.load(io.BytesIO(streamed), weights_only=False)
            if key not in tensors:
                if not isinstance(got, torch.Tensor):
                    same(describe.describe_object(got), describe.describe_object(state[key]), f"{name} {key!r}: the object")
                continue
            check(equal(got, tensors[key]), f"{name} {key!r}: .pt holds the tensor")
            raw = dcpctl(folder, key, "--format", "raw", "-o", "-")
            wanted = tensors[key].contiguous().resolve_conj().resolve_neg()
            same(len(raw), wanted.numel() * wanted.element_size(), f"{name} {key!r}: bytes")
            if wanted.dtype in NUMPY_HAS:
                array = numpy.load(io.BytesIO(dcpctl(folder, key, "--format", "npy", "-o", "-")))
                check(array.dtype == wanted.numpy().dtype and array.tobytes() == wanted.numpy().tobytes() == raw, f"{name} {key!r}: .npy")
            if not wanted.is_complex() and "e8m0" not in str(wanted.dtype):  # which this safetensors reads in no way
                one = load(dcpctl(folder, key, "--format", "safetensors", "-o", "-"))
                check(list(one) == [key] and equal(one[key], wanted), f"{name} {key!r}: .safetensors")
    check(tried > 30, f"only {tried} keys were tried")
    for name in ("fsdp2_ws4", "titan_like", "app_state"):  # what numpy has no dtype for is not among them
        tensors = plain_tensors(state_of(DATA / name / "ckpt"))
        dcpctl(DATA / name / "ckpt", "*", "-o", scratch / f"{name}.npz")
        with numpy.load(scratch / f"{name}.npz") as arrays:
            same(sorted(arrays.files), sorted(tensors), f"{name}: keys of the .npz")
            for key, tensor in tensors.items():
                check(arrays[key].dtype == tensor.numpy().dtype and arrays[key].tobytes() == tensor.contiguous().numpy().tobytes(), f"{name} {key!r}: .npz")


def slices(scratch):
    tried = 0
    for name, folder, state, keys in chosen(most=30):
        rng = random.Random(name)
        for key, tensor in plain_tensors(state).items():
            if key not in keys or tensor.dim() == 0 or tensor.numel() == 0:
                continue
            parts = []
            for size in tensor.shape:
                begin, end = sorted(rng.choices(range(size + 1), k=2))
                parts.append(str(rng.randrange(-size, size)) if rng.random() < 0.3 else f"{begin}:{end}:{rng.choice([1, 1, 2, 3])}")
            text = ", ".join(parts)
            wanted = eval(f"tensor[{text}]", {"tensor": tensor})
            for source in ("-", scratch / "part.pt"):
                got = dcpctl(folder, key, "--format", "pt", "--slice", text, "-o", source, *([] if source == "-" else ["--force"]))
                got = torch.load(io.BytesIO(got) if source == "-" else source)
                check(equal(got, wanted), f"{name} {key}[{text}]")
            tried += 1
    check(tried > 20, f"only {tried} slices were tried")


def stats(_):
    tried = 0
    for name, folder, state, keys in chosen(most=30):
        for key, tensor in plain_tensors(state).items():
            if key not in keys or not tensor.dtype.is_floating_point or tensor.element_size() == 1 or tensor.numel() < 2:
                continue
            found = json.loads(dcpctl(folder, key, "--stats", "--json"))
            values = tensor.double()
            finite = values[values.isfinite()]
            for what, number in (("nan", values.isnan().sum()), ("inf", values.isinf().sum()), ("zero", (values == 0).sum())):
                same(found[what], int(number), f"{name} {key!r}: {what}")
            for what, number in (("min", finite.min()), ("max", finite.max()), ("mean", finite.mean())):
                check(math.isclose(found[what], number, rel_tol=1e-9, abs_tol=1e-12), f"{name} {key!r}: {what} {found[what]}, expected {number}")
            tried += 1
    check(tried > 15, f"only {tried} tensors were tried")


def main():
    for part in sys.argv[2:]:
        with tempfile.TemporaryDirectory() as scratch:
            globals()[part](Path(scratch))
    finish()


if __name__ == "__main__":
    main()
