#!/usr/bin/env python3
"""Random state dicts: saved by torch, rewritten by dcpctl in every way that it knows, one output after another, and each loaded by torch again:
the same values bit for bit, names and nesting.

    roundtrip.py DCPCTL [--seed N|random] [--count N | --seconds S] [--threads N] [--keep FOLDER]

Each save has a seed of its own, counted up from --seed; a failure prints the line that repeats it.
"""
import argparse
import contextlib
import io
import json
import logging
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
import traceback
from pathlib import Path

from first_saves import Checkpoint, Refused, counts, empty_dicts, first_checkpoint, glob_of, has_safetensors_form, leaves, nested, torch_rebuilds

import torch
import torch.distributed.checkpoint as dcp
from safetensors import safe_open
from torch.distributed.checkpoint.default_planner import _EmptyStateDictLoadPlanner
from torch.distributed.checkpoint.state_dict_loader import _load_state_dict
from torch.distributed.device_mesh import DeviceMesh

import describe
import random_saves as saves

logging.disable(logging.CRITICAL)


class Different(Exception):
    pass


class ModelOfNothing(Exception):
    """All tensors of what dcpctl takes for the model are empty, which it refuses."""


def same(got, wanted, what):
    if got != wanted:
        raise Different(f"{what}:\n  got      {got}\n  expected {wanted}"[:4000])


def same_value(got, wanted, what):
    """Bits of tensors, the whole of objects, containers with the order of their lists."""
    if isinstance(wanted, torch.Tensor):
        if not isinstance(got, torch.Tensor):
            raise Different(f"{what}: a {type(got)}, not a tensor")
        same((got.dtype, tuple(got.shape)), (wanted.dtype, tuple(wanted.shape)), what)
        if describe.raw_bytes(got) != describe.raw_bytes(wanted):
            raise Different(f"{what}: other bits: {wanted.dtype}, {tuple(wanted.shape)}")
    elif isinstance(wanted, dict):
        if not isinstance(got, dict):
            raise Different(f"{what}: a {type(got)}, not a dict")
        same(sorted(map(repr, got)), sorted(map(repr, wanted)), f"{what}: keys")
        for key in wanted:
            same_value(got[key], wanted[key], f"{what}[{key!r}]")
    elif isinstance(wanted, list) and any(isinstance(v, (torch.Tensor, dict, list)) for v in wanted):
        same((type(got), len(got) if isinstance(got, list) else None), (list, len(wanted)), what)
        for i, value in enumerate(wanted):
            same_value(got[i], value, f"{what}[{i}]")
    else:
        same(describe.describe_object(got), describe.describe_object(wanted), what)


def holds_tensors(value):
    inside = value.values() if isinstance(value, dict) else value if isinstance(value, (list, tuple)) else ()
    return isinstance(value, torch.Tensor) or any(map(holds_tensors, inside))


# ---- torch loads


def load_dcp(rng, c):
    metadata = dcp.FileSystemReader(c.path).read_metadata()
    same(sorted(metadata.state_dict_metadata), sorted(c.flat), "keys of the metadata")
    if metadata.planner_data is not None and c.paths_known:
        same({k: tuple(v) for k, v in metadata.planner_data.items()}, {k: tuple(path) for k, (path, _) in c.flat.items()}, "paths of the planner data")
    # All of it, flat.
    state = {key: torch.empty(m.size, dtype=m.properties.dtype) if hasattr(m, "size") else None for key, m in metadata.state_dict_metadata.items()}
    planner = dcp.DefaultLoadPlanner(flatten_state_dict=False, flatten_sharded_tensors=False)
    _load_state_dict(state, dcp.FileSystemReader(c.path), planner=planner, no_dist=True)
    for key, (_, value) in c.flat.items():
        same_value(state[key], value, f"dcp.load: {key!r}")
    counts["loads"] += 1
    load_dcp_as_ranks(rng, c)
    if c.paths_known and torch_rebuilds(c.flat):  # as dcp_to_torch_save does
        state = {}
        _load_state_dict(state, dcp.FileSystemReader(c.path), planner=_EmptyStateDictLoadPlanner(), no_dist=True)
        same_value(state, nested(c.flat), "the whole state dict")
        counts["loads"] += 1


def load_dcp_as_ranks(rng, c):
    """Each rank of another mesh loads its part."""
    parts = []
    world = rng.choice([2, 3, 4, 6])
    for key, value in c.tensors().items():
        part = saves.Part(rng, 1)
        part.whole, part.lazy = value, None
        part.place(world)
        part.first_rank, part.mesh = 0, [world] if len(part.mesh) == 1 else part.mesh
        if torch.Size(part.mesh).numel() == world and not value.is_quantized and not value.is_conj() and not value.is_neg():
            parts.append((key, part))
    rank = rng.randrange(world)
    if not parts:
        return
    with saves.AsRank(rank, world):
        mesh_of = lambda part: DeviceMesh("cpu", torch.arange(world).reshape(part.mesh))
        state = {key: part.as_dtensor(mesh_of(part), rng, blank=True) for key, part in parts}
        _load_state_dict(state, dcp.FileSystemReader(c.path), planner=dcp.DefaultLoadPlanner(flatten_state_dict=False, flatten_sharded_tensors=False), no_dist=True)
        for key, part in parts:
            wanted = part.as_dtensor(mesh_of(part), random.Random(1))
            same_value(state[key].to_local(), wanted.to_local(), f"rank {rank} of {part.mesh}, {part.placements}: {key!r}")
    counts["loads"] += 1


def load_pt(rng, c):
    arguments = {"mmap": rng.random() < 0.5}
    same_value(torch.load(c.path, weights_only=not c.unsafe, **arguments), c.nested, "torch.load")
    counts["loads"] += 1


def load_safetensors_files(paths, c):
    found = {}
    for path in paths:
        with safe_open(path, "pt") as f:
            for key in f.keys():
                same(key in found, False, f"{key!r} in two files")
                found[key] = f.get_tensor(key)
    same_value(found, {key: value for key, (_, value) in c.flat.items()}, "safetensors")
    counts["loads"] += 1


def load_safetensors(rng, c):
    load_safetensors_files([c.path], c)


def load_hf(rng, c):
    index = json.loads((c.path / "model.safetensors.index.json").read_text())["weight_map"]
    same(sorted(index), sorted(c.flat), "keys of the index")
    load_safetensors_files([c.path / name for name in sorted(set(index.values()))], c)


LOAD = {"dcp": load_dcp, "pt": load_pt, "safetensors": load_safetensors, "hf": load_hf}

# ---- dcpctl rewrites


class Trial:
    def __init__(self, dcpctl, seed, folder, threads):
        self.dcpctl, self.folder, self.threads = dcpctl, Path(folder), threads
        self.rng = random.Random(seed)
        self.outputs = 0
        self.log = []

    def run(self, *arguments):
        arguments = [self.dcpctl, *map(str, arguments)]
        self.log.append(" ".join(arguments))
        result = subprocess.run(arguments, capture_output=True, text=True, errors="replace")
        if result.returncode in (1, 3) and "the model's parameters have no elements" in result.stdout + result.stderr:
            raise ModelOfNothing
        if result.returncode != 0:
            raise Different(f"exit {result.returncode}: {' '.join(arguments)}\n{result.stdout}{result.stderr}"[:4000])
        return result

    def out(self, ending=""):
        self.outputs += 1
        return self.folder / f"out{self.outputs}{ending}"

    def write(self, command, source, out, *options):
        rng = self.rng
        options = [*options, "--no-sync"]
        threads = self.threads or rng.choice([None, 1, 2, 16])
        if threads:
            options += ["-j", threads]
        if rng.random() < 0.15:
            options += ["--verify-after"]
        if rng.random() < 0.15:
            options += ["--max-memory", rng.choice(["96MiB", "256MiB"])]
        report = self.folder / "report.json"
        self.run(command, source.path, out, *options, "--report", report)
        counts["rewrites"] += 1
        return json.loads(report.read_text())

    # --- of all to each kind

    def to_pt(self, source):
        out = self.out(".pt")
        report = self.write("consolidate" if source.kind == "dcp" or self.rng.random() < 0.5 else "convert", source, out)
        state = source.nested if source.kind == "pt" else nested(source.flat)
        made = Checkpoint("pt", out, {**leaves(state), **dict(empty_dicts(state))})  # what was one object is looked into now
        made.nested = state
        made.unsafe = bool(report["unsafe"])
        return made

    def tensors_only(self, source):
        """What safetensors can hold, and the options that leave the rest out."""
        kept, options = {}, ["--tensors-only"]
        for key, (_, value) in source.flat.items():
            is_tensor = isinstance(value, torch.Tensor)
            if is_tensor and has_safetensors_form(key, value):
                kept[key] = ((key,), value)
            elif is_tensor or holds_tensors(value):  # weights, as far as dcpctl knows
                options += ["--exclude", glob_of(key)]
        return kept, options

    def to_safetensors(self, source):
        kept, options = self.tensors_only(source)
        if not kept:
            return None
        out = self.out(".safetensors")
        self.write(self.rng.choice(["consolidate", "convert"]), source, out, *options)
        return Checkpoint("safetensors", out, kept)

    def to_hf(self, source):
        kept, options = self.tensors_only(source)
        if not kept:
            return None
        out = self.out()
        self.write(self.rng.choice(["consolidate", "convert"]), source, out, "--max-shard-size", self.rng.choice([1, 100, 4000, "1GB"]), *options)
        return Checkpoint("hf", out, kept)

    def placements(self, source):
        """A mesh, and for each tensor what is to be split, as options."""
        rng = self.rng
        mesh = rng.choice([[2], [5], [2, 2], [3, 2], [2, 2, 2]])
        options = ["--mesh", "x".join(map(str, mesh))]
        for key, value in source.tensors().items():
            dims = value.dim()
            parts = [f"shard({rng.randrange(-dims, dims)})" if dims and rng.random() < 0.8 else "replicate" for _ in mesh]
            if len(mesh) > 1 and dims and rng.random() < 0.2:
                dim = rng.randrange(dims)
                parts[:2] = [f"strided({dim})", f"shard({dim})"]
            options += ["--placements", glob_of(key) + "=" + ",".join(parts)]
        return options

    def to_dcp(self, source):
        rng, out = self.rng, self.out()
        options = []
        command = "convert"
        if source.kind == "dcp":
            command = "reshard"
            way = rng.choice(["world", "world", "mesh", "like"])
            if way == "world":
                options = ["--world-size", rng.choice([1, 2, 3, 7, 16])]
            elif way == "mesh":
                options = self.placements(source)
            else:
                options = ["--like", rng.choice(self.layouts)]
        elif rng.random() < 0.8:
            options = ["--world-size", rng.choice([1, 3, 7])]
        self.write(command, source, out, *options)
        made = Checkpoint("dcp", out, source.flat)
        made.paths_known = source.kind == "pt" or (source.kind == "dcp" and source.paths_known)
        self.layouts.append(out)
        return made

    def cast(self, source):
        """To the dtype that each tensor has: nothing changes."""
        out = self.out({"pt": ".pt", "safetensors": ".safetensors"}.get(source.kind, ""))
        report = self.write("cast", source, out, "--dtype", "bf16", "--dtype-scope", "all", "--dtype-rule", "*=keep")
        made = Checkpoint(source.kind, out, source.flat)
        made.nested, made.paths_known, made.unsafe = source.nested, source.paths_known, bool(report["unsafe"])
        return made

    def verify(self, source, manifest):
        result = self.run("verify", source.path, "--json", *manifest, *(["-j", self.threads] if self.threads else []))
        damage = [f for f in json.loads(result.stdout)["findings"] if f["severity"] not in ("note", "warning")]
        same(damage, [], "verify")
        counts["verified"] += 1

    def walk(self, source, steps):
        """Outputs of outputs, all checked against what torch saved."""
        self.layouts = [source.path] if source.kind == "dcp" else []
        manifest = self.folder / "manifest.json"
        self.verify(source, ["--manifest", manifest])
        for _ in range(steps):
            made = self.rng.choice([self.to_pt, self.to_pt, self.to_safetensors, self.to_hf, self.to_dcp, self.to_dcp, self.cast])(source)
            if made is None:
                continue
            LOAD[made.kind](self.rng, made)
            self.verify(made, [])
            source = made


def attempt(dcpctl, seed, folder, threads):
    trial = Trial(dcpctl, seed, folder, threads)
    try:
        try:
            source = first_checkpoint(trial)
        except Refused:
            counts["refused by torch"] += 1
            return
        counts["saves"] += 1
        trial.walk(source, trial.rng.randint(2, 5))
    except ModelOfNothing:
        counts["models of nothing"] += 1
    except (Exception, dcp.api.CheckpointException) as e:
        e.add_note("\n".join(trial.log))
        raise


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("dcpctl")
    parser.add_argument("--seed", default="1")
    parser.add_argument("--count", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=0)
    parser.add_argument("--threads", type=int)
    parser.add_argument("--keep")
    options = parser.parse_args()
    torch.set_num_threads(1)
    seed = random.SystemRandom().randrange(10**9) if options.seed == "random" else int(options.seed)
    begin, failures, first = time.monotonic(), 0, seed
    while (seed - first < options.count) if options.count else (time.monotonic() - begin < options.seconds):
        with tempfile.TemporaryDirectory() as scratch:
            try:
                with contextlib.redirect_stderr(io.StringIO()):
                    attempt(os.path.abspath(options.dcpctl), seed, scratch, options.threads)
            except (Exception, dcp.api.CheckpointException):
                failures += 1
                print(f"FAILED: seed {seed}\n{traceback.format_exc()}repeat with: {sys.argv[0]} {options.dcpctl} --seed {seed} --count 1", flush=True)
                if options.keep:
                    shutil.copytree(scratch, options.keep, dirs_exist_ok=True)
        seed += 1
    print(f"seeds {first} to {seed - 1}, {time.monotonic() - begin:.0f} s: " + ", ".join(f"{n} {what}" for what, n in sorted(counts.items())))
    if counts["models of nothing"] > 2 + counts["saves"] / 20:
        sys.exit("too many are taken for models of nothing")
    if counts["refused by torch"] > 20 + counts["saves"]:
        failures += 1
        print("FAILED: most saves were refused by torch: nothing is tried")
    print(f"{failures} failures")
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main()
