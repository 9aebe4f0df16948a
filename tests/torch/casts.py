#!/usr/bin/env python3
"""--dtype DTYPE of all floats equals Tensor.to.

    casts.py DCPCTL DTYPE
"""
import sys

import torch
import torch.distributed.checkpoint as dcp

from case import DATA, Case, check, finish, loaded, read_safetensors, same

FLOATS = ["float64", "float32", "float16", "bfloat16", "float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz"]
LIMITS = [0.0, 448.0, 464.0, 464.1, 480.0, 240.0, 248.0, 57344.0, 61440.0, 65504.0, 65519.9, 65520.0, 3.3e38, 3.4e38, 1e300, 2.0**-10, 2.0**-17,
          2.0**-24, 2.0**-25, 1.1 * 2.0**-25, 1e-40, 1e-45, 1e-320, 1 + 2.0**-8, 1 + 3 * 2.0**-9, float("inf"), float("nan")]  # fmt: skip


def of_all_magnitudes(name):
    """All patterns of up to 16 bits; else the limits of all formats, and numbers of all magnitudes that some format can tell apart."""
    dtype = getattr(torch, name)
    if dtype.itemsize <= 2:
        return torch.arange(256**dtype.itemsize, dtype=torch.int32).to(torch.uint8 if dtype.itemsize == 1 else torch.uint16).view(dtype)
    generator = torch.Generator().manual_seed(1)
    values = torch.randn(5000, dtype=torch.float64, generator=generator) * 2.0 ** torch.randint(-160, 140, (5000,), generator=generator)
    limits = torch.tensor(LIMITS, dtype=torch.float64)
    return torch.cat([values, limits, -limits]).to(dtype)


def bits(tensor):
    """Of each element, all NaN of 16 bits alike: torch's own code paths differ there."""
    if tensor.dtype in (torch.float16, torch.bfloat16):
        nan = tensor.isnan()
        return torch.where(nan, -1, tensor.contiguous().view(torch.int16).int())
    return tensor.contiguous().reshape(-1).view(torch.uint8)


def same_cast(got, source, dtype, what):
    wanted = source.to(dtype)
    same((got.dtype, got.shape), (wanted.dtype, wanted.shape), what)
    different = (bits(got) != bits(wanted)).sum().item() if got.dtype == wanted.dtype else "all"
    check(different == 0, f"{what}: {different} elements differ from Tensor.to")


def casts(case, name):
    dtype = getattr(torch, name)
    state = {
        "model": {source: of_all_magnitudes(source) for source in FLOATS},
        "integers": torch.arange(5),
        "flags": torch.tensor([True, False]),
        "complex": torch.tensor([1 + 2j]),
        "w_scale": torch.ones(3),
        "optimizer": {"step": torch.tensor(10001.0)},
        "object": {"lr": 0.1},
    }
    case.checkpoint = case.out / "ckpt"
    dcp.save(state, checkpoint_id=case.checkpoint, no_dist=True)
    for threads in ("1", "3"):
        out, report, _ = case.consolidate(f"cast{threads}.pt", "--dtype", name, "-j", threads)
        written = torch.load(out, weights_only=True)
        for source, tensor in state["model"].items():
            same_cast(written["model"][source], tensor, dtype, f"{source} to {name}")
        for key in ("integers", "flags", "complex", "w_scale"):
            check(torch.equal(written[key], state[key]) and written[key].dtype == state[key].dtype, f"{key} was cast")
        check(written["optimizer"]["step"].item() == 10001.0, "the optimizer's step was cast")
        same(report["cast"]["tensors"], len(FLOATS) - 1, "tensors that were cast")
        for note in report["cast"]["losses"]:
            source = state["model"][note["key"].removeprefix("model.")]
            before, after = source.double(), source.to(dtype).double()
            same(note.get("became_inf", 0), (after.isinf() & before.isfinite()).sum().item(), f"{note}: inf")
            same(note.get("became_nan", 0), (after.isnan() & ~before.isnan()).sum().item(), f"{note}: NaN")
            saturated = (before.abs() > 464) & (after.abs() == 448) if name == "float8_e4m3fn" else torch.zeros(1)  # the others have inf or NaN
            same(note.get("saturated", 0), int(saturated.sum().item()), f"{note}: saturated")
            same(note.get("became_zero", 0), ((after == 0) & (before != 0)).sum().item(), f"{note}: zero")
    out, _, _ = case.consolidate("all.safetensors", "--dtype", name, "--dtype-scope", "all", "--exclude", "complex", "--dtype-rule", "model.float32=keep")
    written = read_safetensors(out)
    for source, tensor in state["model"].items():
        same_cast(written["model." + source], tensor, torch.float32 if source == "float32" else dtype, f"safetensors: {source} to {name}")
    same_cast(written["optimizer.step"], state["optimizer"]["step"], dtype, "--dtype-scope all")

    # Where the stored dtype is not the metadata's, torch converts to the metadata's first.
    case.checkpoint = DATA / "float_meta_differs" / "ckpt"
    state = loaded(case.checkpoint)
    out, _, _ = case.consolidate("differs.safetensors", "--dtype", name)
    written = read_safetensors(out)
    for key, tensor in state.items():
        same_cast(written[key], tensor, dtype if tensor.is_floating_point() else tensor.dtype, key)


if __name__ == "__main__":
    torch.set_num_threads(1)
    for dtype in sys.argv[2:]:
        print(dtype)
        casts(Case(sys.argv[1], "threads"), dtype)
    finish()
