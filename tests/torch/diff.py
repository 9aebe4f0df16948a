#!/usr/bin/env python3
"""dcpctl diff against plain loops over what torch holds.

    diff.py DCPCTL rewrites [--seed N] [--count N]   what dcpctl rewrites in any way, output after output, is the same
    diff.py DCPCTL values [--seed N] [--count N]     random tensors in two random layouts, with random changes: which, how many, where, by how much
    diff.py DCPCTL objects                           objects that are equal or not, pickled by several protocols
"""
import argparse
import collections
import copy
import json
import math
import os
import random
import subprocess
import sys
import tempfile

import numpy
import torch
from safetensors.torch import save_file

from case import NO_SAFETENSORS, check, failures, same

import describe
import random_saves as saves
import roundtrip

COMPARED_BY_TORCH = [torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.int64, torch.int32, torch.uint8, torch.bool, torch.complex64]
NUMBERS = [d for d in saves.DTYPES if describe.dtype_name(d) not in ("float4_e2m1fn_x2",)]


def run(dcpctl, *arguments):
    result = subprocess.run([dcpctl, "diff", *map(str, arguments), "--json"], capture_output=True, text=True)
    if result.returncode not in (0, 1):
        sys.exit(f"{arguments}: exit {result.returncode}\n{result.stdout}{result.stderr}")
    document = json.loads(result.stdout)
    same(document["exit"], result.returncode, "the document's exit code")
    return document


# ---- what was rewritten


class Rewritten(roundtrip.Trial):
    def walk(self, source, steps):
        self.layouts = [source.path] if source.kind == "dcp" else []
        self.differs(source, source, [])
        first, all_kept = source, True
        for _ in range(steps):
            made = self.rng.choice([self.to_pt, self.to_safetensors, self.to_hf, self.to_dcp, self.to_dcp])(source)
            if made is None:
                continue
            options = []
            if made.kind in ("safetensors", "hf"):
                all_kept = False
                options = ["--tensors-only"]
                for key, value in source.tensors().items():
                    if not roundtrip.has_safetensors_form(key, value):
                        options += ["--exclude", roundtrip.glob_of(key)]
            self.differs(source, made, options)
            source = made
        if all_kept:
            self.differs(source, first, [])

    def differs(self, a, b, options):
        arguments = [self.dcpctl, "diff", a.path, b.path, *options, "-j", self.rng.choice([1, 3, 16])]
        arguments = list(map(str, arguments))
        self.log.append(" ".join(arguments))
        result = subprocess.run(arguments, capture_output=True, text=True, errors="replace")
        roundtrip.counts["compared"] += 1
        if result.returncode != 0:
            raise roundtrip.Different(f"exit {result.returncode}: {' '.join(arguments)}\n{result.stdout}{result.stderr}"[:4000])


def rewrites(dcpctl, seed, count):
    for s in range(seed, seed + count):
        with tempfile.TemporaryDirectory() as folder:
            trial = Rewritten(dcpctl, s, folder, None)
            try:
                source = roundtrip.first_checkpoint(trial)
            except roundtrip.Refused:
                continue
            try:
                trial.walk(source, trial.rng.randint(1, 4))
            except roundtrip.Different as e:
                check(False, f"seed {s}: {e}\n" + "\n".join(trial.log))
    check(roundtrip.counts["compared"] > count, "hardly anything was compared")


# ---- random values


def numbers_of(tensor):
    """Python numbers, exactly."""
    if tensor.dtype.is_complex:
        return [complex(x) for x in tensor.to(torch.complex128).flatten().tolist()]
    if tensor.dtype.is_floating_point:
        return tensor.to(torch.float64).flatten().tolist()
    if tensor.dtype is torch.uint64:
        return [x % 2**64 for x in tensor.view(torch.int64).flatten().tolist()]
    return [int(x) for x in tensor.flatten().tolist()]


def is_nan(x):
    return x != x


def is_finite(x):
    return not is_nan(x) and abs(x) != math.inf and (not isinstance(x, complex) or (math.isfinite(x.real) and math.isfinite(x.imag)))


def expected_values(a, b, rtol, atol, equal_nan):
    """By loops: counts, and the first of the largest errors."""
    width = a.element_size()
    raw_a, raw_b = describe.raw_bytes(a), describe.raw_bytes(b)
    found = collections.Counter()
    worst = None
    for i, (x, y) in enumerate(zip(numbers_of(a), numbers_of(b))):
        if raw_a[i * width : (i + 1) * width] == raw_b[i * width : (i + 1) * width]:
            continue
        if x == y or (equal_nan and is_nan(x) and is_nan(y)):
            found["other_bytes_same_value"] += 1
            continue
        found["changed"] += 1
        if not (is_finite(x) and is_finite(y)):
            found["non_finite"] += 1
            found["differing"] += 1
            continue
        error = float(abs(x - y))
        if not (error <= atol + rtol * abs(y)):
            found["differing"] += 1
        if worst is None or error > worst[0]:
            worst = (error, i)
    return found, worst


def change(rng, part, share):
    """Another tensor of the same shape and dtype: nothing, a few elements or all of it is other."""
    other = copy.copy(part)
    bits = part.whole.contiguous().view(saves.WIDE[part.whole.dtype.itemsize]).clone().flatten()
    anything = saves.random_bits(rng, part.whole.dtype, [bits.numel()]).view(bits.dtype)
    for i in range(bits.numel()):
        if rng.random() < share:
            bits[i] = anything[i]
    other.whole = bits.reshape(part.whole.shape).view(part.whole.dtype)
    return other


def saved(rng, parts, world, folder, name):
    """One of the forms that torch saves."""
    kind = rng.choice(["dcp", "dcp", "dcp", "pt", "safetensors"])
    if kind == "safetensors" and any(describe.dtype_name(p.whole.dtype) in NO_SAFETENSORS for p in parts.values()):
        kind = "pt"
    if kind == "dcp":
        path = f"{folder}/{name}"
        saves.save(parts, world, saves.random_writer(rng, path), saves.random_planner(rng, True))
        return path
    tensors = {k: p.whole.contiguous().clone() for k, p in parts.items()}
    path = f"{folder}/{name}." + kind
    (torch.save if kind == "pt" else save_file)(tensors, path)
    return path


def random_parts(rng, world):
    parts = {}
    for i in range(rng.randint(1, 6)):
        part = saves.Part(rng, world, lazy=False)
        part.parameter = False
        part.whole = part.whole.contiguous()
        if part.whole.dtype in NUMBERS:
            parts[f"t{i}"] = part
    return parts


def one_of_values(dcpctl, rng, folder):
    worlds = [rng.choice([1, 2, 3, 4, 6]) for _ in range(2)]
    parts = random_parts(rng, worlds[0])
    if not parts:
        return
    share = rng.choice([0, 0.01, 0.3, 1])
    others = {}
    for key, part in parts.items():
        others[key] = change(rng, part, share)
        others[key].mesh = None
        if worlds[1] > 1 and rng.random() < 0.7:
            others[key].place(worlds[1])
    try:
        a, b = saved(rng, parts, worlds[0], folder, "a"), saved(rng, others, worlds[1], folder, "b")
    except (ValueError, RuntimeError):  # of strided placements that overlap
        return
    rtol, atol, equal_nan = rng.choice([0, 0, 1e-3, 1]), rng.choice([0, 0, 0.25]), rng.random() < 0.5
    options = ["--rtol", rtol, "--atol", atol, *(["--equal-nan"] if equal_nan else [])]
    documents = [run(dcpctl, a, b, *options, "-j", threads, *rng.choice([[], ["--max-memory", "96MiB"]])) for threads in (1, 16)]
    for d in documents:
        for member in ("seconds", "peak_memory_bytes", "bytes_read"):
            del d[member]
    same(documents[0], documents[1], "1 thread and 16")
    told = {d["key"]: d for d in documents[0]["differences"]}
    for key, part in parts.items():
        counts, worst = expected_values(part.whole, others[key].whole, rtol, atol, equal_nan)
        same(key in told, counts["differing"] > 0, f"{key}: {part.whole.dtype} {tuple(part.whole.shape)}: told of")
        if key not in told or key not in others:
            continue
        values = told[key]["values"]
        for name in ("changed", "differing", "other_bytes_same_value", "non_finite"):
            same(values[name], counts[name], f"{key}: {part.whole.dtype} {name}")
        if worst:
            error = math.inf if values["max_abs"]["error"] is None else values["max_abs"]["error"]
            check(math.isclose(error, worst[0], rel_tol=1e-12), f"{key}: error {error}, expected {worst[0]}")
            index = 0
            for i, size in zip(values["max_abs"]["index"], part.whole.shape):
                index = index * size + i
            if not part.whole.dtype.is_complex:  # their lengths are rounded
                same(index, worst[1], f"{key}: {part.whole.dtype} place of the largest error")
        if part.whole.dtype in COMPARED_BY_TORCH and rtol == atol == 0 and not equal_nan:
            same(torch.equal(part.whole, others[key].whole), False, f"{key}: torch.equal")
        if part.whole.dtype in (torch.float64, torch.float32) and not counts["non_finite"]:
            close = torch.allclose(part.whole.double(), others[key].whole.double(), rtol=rtol, atol=atol, equal_nan=True)
            same(close, False, f"{key}: torch.allclose")


def values(dcpctl, seed, count):
    for s in range(seed, seed + count):
        before = len(failures)
        with tempfile.TemporaryDirectory() as folder:
            one_of_values(dcpctl, random.Random(s), folder)
        if len(failures) > before:
            print(f"of seed {s}")


# ---- objects


SAMPLES = [
    None, True, False, 0, 1, -1, 255, 2**31, -(2**31) - 1, 2**63, 2**80, -(2**80), 0.0, 1.0, 3, 3.0, math.inf, "", "3", "text", "漢\x00字",
    b"", b"3", b"\x00\xff", bytearray(b"3"), 1 - 2j, (), (1,), (1, 2), (2, 1), [], [1], [1, 2], [1.0, 2], {1}, {1, 2}, frozenset({1, 2}), set(),
    ({},), ({"a": 1},), ({"a": 1, "b": 2},), ({"a": 2, "b": 1},), (collections.OrderedDict(a=1),), torch.Size((2, 3)), (torch.float32,), (torch.float16,),
    (torch.device("cpu"),), (torch.arange(3),), (torch.arange(4),), (torch.arange(3).float(),), (torch.arange(6).reshape(2, 3),),
    (torch.arange(6).reshape(3, 2).t().contiguous().t(),), (torch.arange(6).reshape(3, 2),), ((1, 2), 3), (1, (2, 3)), describe.Point(1, 2), describe.Point(1, 3),
    (numpy.arange(3),), (numpy.float64(2),), (range(3),), (range(4),), (slice(1, 2),),
]  # fmt: skip

def cyclic(length):
    ring = [length]
    ring.append(ring)
    return (ring,)


def objects(dcpctl):
    samples = [*SAMPLES, cyclic(1), cyclic(2)]
    with tempfile.TemporaryDirectory() as folder:
        for protocol in (2, 4):
            torch.save({f"k{i}": (v, "beside") for i, v in enumerate(samples)} | {"w": torch.zeros(1)}, f"{folder}/{protocol}.pt", pickle_protocol=protocol)
            same(run(dcpctl, f"{folder}/{protocol}.pt", f"{folder}/2.pt")["differences"], [], f"protocol {protocol}")
        # Each against the next.
        torch.save({f"k{i}": (v, "beside") for i, v in enumerate(samples)} | {"w": torch.zeros(1)}, f"{folder}/a.pt")
        torch.save({f"k{i}": (samples[(i + 1) % len(samples)], "beside") for i in range(len(samples))} | {"w": torch.zeros(1)}, f"{folder}/b.pt", pickle_protocol=4)
        told = {d["key"] for d in run(dcpctl, f"{folder}/a.pt", f"{folder}/b.pt")["differences"]}
        for i, value in enumerate(samples):
            other = samples[(i + 1) % len(samples)]
            wanted = describe.describe_object(value) != describe.describe_object(other)
            same(f"k{i}" in told, wanted, f"{value!r:.60} against {other!r:.60}: differ")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("dcpctl")
    parser.add_argument("what")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=40)
    o = parser.parse_args()
    torch.set_num_threads(1)
    dcpctl = os.path.abspath(o.dcpctl)
    if o.what == "objects":
        objects(dcpctl)
    else:
        {"rewrites": rewrites, "values": values}[o.what](dcpctl, o.seed, o.count)
    print(f"{len(failures)} failures")
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main()
