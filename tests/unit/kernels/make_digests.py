#!/usr/bin/env python3
"""Writes cast.digests: what Tensor.to of torch 2.15 makes of all 2^32 patterns of float32. casts_test.cc reads it.

    make_digests.py            all targets (5 minutes)
    make_digests.py TARGET...  these anew, the others as they are

A line is a target and 256 CRC-32, in hexadecimal: the k-th over the outputs of the patterns k << 24 to (k + 1 << 24) - 1, in order.
Bits of a bfloat16 NaN differ between torch's own code paths: all are written 0x7fc0. `float8_e4m3fn/nan` is what torch 2.11 gave:
NaN with the sign of the source for all that torch 2.15 saturates.
"""
import sys
import zlib
from pathlib import Path

import numpy as np
import torch

TARGETS = ["float16", "bfloat16", "float8_e4m3fn", "float8_e4m3fn/nan", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz"]
FILE = Path(__file__).with_name("cast.digests")
CHUNK = 1 << 24


def outputs(patterns, target):
    """As unsigned integers."""
    source = torch.from_numpy(patterns.view(np.float32))
    name, _, nan = target.partition("/")
    out = source.to(getattr(torch, name)).view(torch.uint8).numpy()
    out = out.view(np.uint16) if name in ("float16", "bfloat16") else out
    if name == "bfloat16":
        out[(out & 0x7FFF) > 0x7F80] = 0x7FC0
    if nan:
        magnitude = patterns & 0x7FFFFFFF
        out[magnitude > np.float32(464).view(np.uint32)] |= 0x7F
    return out


def digests(target):
    crcs = []
    for k in range(256):
        patterns = np.arange(k * CHUNK, (k + 1) * CHUNK, dtype=np.uint32)
        crcs.append(f"{zlib.crc32(outputs(patterns, target)):08x}")
    return crcs


def main():
    assert torch.__version__.startswith("2.15."), torch.__version__
    torch.set_num_threads(1)
    lines = {}
    if FILE.exists():
        lines = {line.split()[0]: line for line in FILE.read_text().splitlines() if not line.startswith("#")}
    for target in sys.argv[1:] or TARGETS:
        lines[target] = " ".join([target, *digests(target)])
        print(target, flush=True)
    head = f"# torch {torch.__version__}, {torch.backends.cpu.get_cpu_capability()}\n"
    FILE.write_text(head + "".join(lines[t] + "\n" for t in TARGETS if t in lines))


if __name__ == "__main__":
    main()
