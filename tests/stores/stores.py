#!/usr/bin/env python3
"""Every command that reads, over every kind of checkpoint, from a store in memory: what it prints and writes is what it does from a disk.

    stores.py DCPCTL STORES
"""
import importlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

TESTS = Path(__file__).resolve().parent.parent
DATA = TESTS / "data"
sys.path.insert(0, str(TESTS / "bad"))
import rank_files  # noqa: E402
from recipes import Checkpoint, archive, dump, small  # noqa: E402

KINDS = re.findall(r'DCP_KIND\(.*?\.name = "([^"]+)"', (TESTS.parent / "src/catalog/kinds.def").read_text())
ENDINGS = {"safetensors": ".safetensors", "torch": ".pt"}
FAULTS = []
# Differs from run to run.
MEASURED = re.compile(rb"[\d.]+ m?s\b|[\d.]+ [kKMG]?i?B/s|peak memory [\d.]+ \w+|\d+ (?:min|h|d)\b|\"(?:seconds|age_seconds|peak_memory_bytes|planned_memory_bytes)\":[\d.e-]+")


def sample(kind):
    return kind + ENDINGS.get(kind, "")


def make_samples(dcpctl, folder):
    """A checkpoint of each kind under the kind's name, a run, and what requests name beside a checkpoint."""
    make = lambda *words: subprocess.run([dcpctl, *words, "-q"], cwd=folder, check=True)
    shutil.copytree(DATA / "fsdp2_ws4" / "ckpt", folder / "dcp")
    make("reshard", "dcp", "dcp-rank-local", "--world-size", "1")
    (folder / "dcp-rank-local" / ".metadata").rename(folder / "dcp-rank-local" / "__0.metadata")
    parts = [{"w": rank_files.dtensor((4, 2), (rank_files.shard(),), (n,))} for n in range(2)]
    for kind, name in [("torch-ranks", "model_world_size_2_rank_{}.pt"), ("torch-checkpointing", "model_{}.pt")]:
        (folder / kind).mkdir()
        for n, part in enumerate(parts):
            (folder / kind / name.format(n)).write_bytes(archive(dump(part, 2), rank_files.DATA).bytes())
    (folder / "torch-checkpointing" / "metadata.pkl").write_bytes(rank_files.metadata())
    make("consolidate", "dcp", sample("safetensors"), "--model-only")
    make("consolidate", "dcp", sample("torch"))
    make("consolidate", "dcp", "hf", "--model-only", "--max-shard-size", "64KiB")
    (folder / "torch-shards").mkdir()
    shutil.copy(folder / sample("torch"), folder / "torch-shards" / "m-1.bin")
    (folder / "torch-shards" / "m.bin.index.json").write_text(json.dumps({"weight_map": {"model.norm.weight": "m-1.bin"}}))
    for step in ["step-10", "step-20"]:
        shutil.copytree(folder / "dcp", folder / "run" / step)
    (folder / "run" / "step-30").mkdir()
    (folder / "run" / "step-30" / "__0_0.distcp").write_bytes(b"cut")
    (folder / "run" / "latest").write_text("20\n")
    (folder / "layout.json").write_text('{"world_size": 2}')
    make("verify", "dcp", "--manifest", "manifest.json")


def contents(folder):
    return {str(p.relative_to(folder)): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()} if folder.exists() else {}


class Both:
    """The samples on a disk, and as `prefix` in a store that `program` knows."""

    def __init__(self, dcpctl, program, samples, scratch, prefix="mem://", environment=None):
        self.programs = {"disk": [dcpctl], "mem": program}
        self.samples, self.scratch, self.prefix, self.environment = samples, scratch, prefix, environment

    def run(self, where, words):
        """Words: NAME@ is a sample; what is written goes to the working folder."""
        at = self.prefix if where == "mem" else f"{self.samples}/"
        out = self.scratch / "out"
        shutil.rmtree(out, ignore_errors=True)
        out.mkdir()
        typed = [re.sub(r"(\S*)@", lambda m: at + m[1], w) for w in words]
        ran = subprocess.run([*self.programs[where], *typed], cwd=out, capture_output=True, timeout=120, env=self.environment)
        plain = lambda text: re.sub(re.escape(at).encode() + rb"\b", b"", text)
        said = [re.sub(rb" +", b" ", MEASURED.sub(b"N", plain(text))) for text in [ran.stdout, ran.stderr]]  # an age of 9 s or 10 s moves its column
        return ran.returncode, *said, {n: plain(b) for n, b in contents(out).items()}

    def same(self, *words, exit=0):
        one, other = (self.run(where, words) for where in ["disk", "mem"])
        if one != other:
            FAULTS.append("\n".join([" ".join(words), *(f"  {r[:3]}" for r in [one, other]), f"  files: {[n for n in one[3].keys() | other[3].keys() if one[3].get(n) != other[3].get(n)]}"]))
        elif exit is not None and one[0] != exit:
            FAULTS.append(f"{' '.join(words)}: exit {one[0]}, expected {exit}: {one[1:3]}")

    def says(self, exit, text, *words):
        code, printed, said, made = self.run("mem", words)
        if code != exit or text not in said.decode() or made:
            FAULTS.append(f"{' '.join(words)}: exit {code}, expected {exit}, made {sorted(made)}: {said!r}, expected {text!r}")


def every_kind(both, kind):
    c = sample(kind) + "@"
    key = next(line.split()[0] for line in both.run("disk", ["inspect", c, "--keys"])[1].decode().splitlines() if "float32" in line)
    for words in [[], ["--keys"], ["--tree"], ["--files"], ["--json"], ["--html", "p.html"], ["--fail-on", "unsafe"]]:
        both.same("inspect", c, *words)
    both.same("inspect", c + "/")
    both.same("verify", c)
    both.same("verify", c, "--json")
    both.same("verify", c, "--manifest", "m.json")
    both.same("verify", c, "--manifest", "-")
    for words in [[], ["--stats"], ["--slice", "1:"], ["-o", "x.npy"]]:
        both.same("extract", c, key, *words)
    both.same("diff", c, c)
    both.same("diff", c, "dcp@", exit=0 if kind in ("dcp", "dcp-rank-local", "torch", "torch-shards") else 1)
    for words in [["consolidate", c, "m.pt"], ["consolidate", c, "m.safetensors", "--tensors-only"], ["consolidate", c, "hf", "--tensors-only", "--max-shard-size", "100KiB"],
                  ["convert", c, "out"], ["convert", c, "out.pt"], ["cast", c, "out" + ENDINGS.get(kind, ""), "--dtype", "bf16"], ["reshard", c, "out", "--world-size", "3"],
                  ["reshard", c, "out", "--like", c], ["reshard", c, "out", "--layout", "layout.json@"], ["consolidate", c, "m.pt", "--expect", c, "--verify-after"],
                  ["consolidate", c, "m.pt", "--dry-run", "--json"]]:  # fmt: skip
        both.same(*words)


def paths(both):
    both.same("edit", "dcp@", "out", "--rename", "^=>x.", "--link", "copy")
    both.same("inspect", "dcp/.metadata@")
    both.same("inspect", "torch-checkpointing/metadata.pkl@")
    both.same("verify", "dcp@", "--against", "manifest.json@")
    both.same("inspect", "dcp@", "hf@", "torch.pt@")
    both.same("inspect", "run@", "--step", "latest")
    both.same("inspect", "run/@", "--step", "10")
    both.same("consolidate", "run@", "m.pt", "--step", "latest")
    for words in [[], ["--json"], ["--pattern", "step-(.*)"]]:
        both.same("list", "run@", *words)
    both.same("list", "run@", "--latest")
    both.same("inspect", "run@")
    both.same("inspect", "none@", exit=3)
    both.same("inspect", "none/.metadata@", exit=3)
    both.same("inspect", "layout.json@", exit=3)


def unlike_items(dcpctl, stores, scratch):
    """The last chunk of a tensor is not like the first, in each way that bad cases have, but as long: its head is predicted, and proven to be another."""
    folder = scratch / "unlike"
    folder.mkdir()
    of_first, names, predicted = Checkpoint.item, [], 0
    Checkpoint.item = lambda self, key, nth=-1: of_first(self, key, nth)
    for family in ["items", "zips", "zstd_items", "unsafe", "places", "chunks"]:
        for name, break_it in vars(importlib.import_module(family)).items():
            if not hasattr(break_it, "case"):
                continue
            c = small(folder / f"{family}-{name}")
            break_it(c)
            chunks = [i for i in c.items if i.key == "model.w"]
            parts = [i.data if isinstance(i.data, bytes) else i.data.bytes() for i in chunks]
            for item, part in zip(chunks, parts):
                item.data = part + bytes(max(map(len, parts)) - len(part))
            if not c.written:
                c.write()
                names.append(c.folder.name)
    Checkpoint.item = of_first
    both = Both(dcpctl, [stores, str(folder)], folder, scratch)
    for name in names:
        words = ["consolidate", name + "@", "out.pt", "-v"]
        (exit, _, said, made), (got_exit, _, got_said, got_made) = (both.run(where, words) for where in ["disk", "mem"])
        predicted += b"all are read first" in got_said
        if (exit, made) != (got_exit, got_made) or exit and said.split(b"dcpctl: ")[-1] not in got_said:
            FAULTS.append(f"{name}: exit {exit} and {got_exit}\n  {said}\n  {got_said}")
    if predicted < len(names) / 2:
        FAULTS.append(f"of {len(names)} items that are unlike others {predicted} were predicted")


def refused(both):
    only_read = "can only be read\nhint: write to a disk, and copy it from there"
    for words in [["consolidate", "dcp@", "o.pt@"], ["convert", "dcp@", "o@"], ["cast", "dcp@", "o@", "--dtype", "bf16"], ["reshard", "dcp@", "o/o@", "--world-size", "2"],
                  ["verify", "dcp@", "--manifest", "m.json@"], ["inspect", "dcp@", "--html", "p.html@"], ["inspect", "dcp@", "--report", "r.json@"],
                  ["extract", "dcp@", "model.w", "-o", "x.npy@"], ["edit", "dcp@", "o@", "--exclude", "optim*"], ["edit", "dcp@", "--in-place", "--exclude", "optim*"],
                  ["prune", "run@", "--keep-latest", "1"], ["bench", "io", "o@"], ["doctor", "dcp@"]]:  # fmt: skip
        both.says(2, only_read, *words)
    unknown = "s3://bucket/x: no store has paths of this kind (got s3://, expected mem:// or a path on disk)"
    for words in [["inspect", "s3://bucket/x"], ["inspect", "s3://bucket/x", "--step", "latest"], ["list", "s3://bucket/x"], ["consolidate", "s3://bucket/x", "o.pt"],
                  ["diff", "dcp@", "s3://bucket/x"], ["verify", "dcp@", "--against", "s3://bucket/x"], ["reshard", "dcp@", "o", "--like", "s3://bucket/x"],
                  ["consolidate", "dcp@", "s3://bucket/x"], ["prune", "s3://bucket/x"], ["extract", "s3://bucket/x", "w"]]:  # fmt: skip
        both.says(2, unknown, *words)


def main():
    dcpctl, stores = map(os.path.abspath, sys.argv[1:3])
    with tempfile.TemporaryDirectory() as scratch:
        samples = Path(scratch, "samples")
        samples.mkdir()
        make_samples(dcpctl, samples)
        both = Both(dcpctl, [stores, str(samples)], samples, Path(scratch))
        for kind in KINDS:
            if f'"kind":"{kind}"'.encode() not in both.run("mem", ["inspect", sample(kind) + "@", "--json"])[1].replace(b" ", b""):
                FAULTS.append(f"no sample of a {kind}")
            every_kind(both, kind)
        paths(both)
        unlike_items(dcpctl, stores, Path(scratch))
        refused(both)
    print("\n".join(FAULTS) or f"{len(KINDS)} kinds of checkpoint are the same from a store")
    sys.exit(1 if FAULTS else 0)


if __name__ == "__main__":
    main()
