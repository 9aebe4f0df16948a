#!/usr/bin/env python3
"""Every command that has workers, with 1, 3 and 16 threads, on inputs small and of many items: each time the same answer and the same files.

    threads.py DCPCTL PART...     parts: see the functions below

A program built with ThreadSanitizer says itself what it finds, and exits with 66.
"""
import hashlib
import os
import pickle
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
DATA = HERE.parent / "data"
sys.path.insert(0, str(HERE.parent / "bad"))
import recipes  # noqa: E402

THREADS = (1, 3, 16)
MANY = 6000  # items: more batches than threads
SECONDS = 300
TSAN = {"TSAN_OPTIONS": "exitcode=66:second_deadlock_stack=1"}


class Lab:
    """A scratch folder, in which commands run."""

    def __init__(self, program, folder):
        self.program, self.folder, self.runs = program, folder, 0

    def run(self, *words, exits=(0,)):
        """What it writes to stdout."""
        self.runs += 1
        if words[0] != "bench":
            words = [*words, "--sandbox", "off"]  # a report's symbols are found by a program that is started then
        done = subprocess.run([self.program, *map(str, words)], cwd=self.folder, env={**os.environ, **TSAN}, capture_output=True, text=True, timeout=SECONDS)
        self.check(words, done.returncode, done.stderr, exits)
        return done.stdout

    def check(self, words, code, stderr, exits):
        if code not in exits or "ThreadSanitizer" in stderr:
            sys.exit(f"dcpctl {' '.join(map(str, words))}\nexit code {code}, expected one of {exits}\n{stderr}")

    def path(self, name):
        return self.folder / name

    def same(self, command, source, out=None, exits=(0,), more=()):
        """One command with each number of threads. `out`: the name of its output, which must be the same in each byte."""
        first = None
        for threads in THREADS:
            words = [command, source]
            target = out and self.path(out)
            if out:
                if target.is_dir():
                    shutil.rmtree(target)
                elif target.exists():
                    target.unlink()
                words += [out, "--no-sync"]
            said = self.run(*words, f"-j{threads}", "-q", *more, exits=exits)
            got = (said, digest(target) if out else None)
            first = first or got
            if got != first:
                sys.exit(f"dcpctl {' '.join(map(str, words))}: with {threads} threads something else than with 1:\n{got}\n{first}")


def digest(path):
    """Of a file or of all files of a folder; None where nothing is."""
    if not path.exists():
        return None
    # .dcpctl-whole has inodes and times in it.
    files = [path] if path.is_file() else sorted(p for p in path.rglob("*") if p.is_file() and p.name != ".dcpctl-whole")
    return [(p.name, hashlib.sha256(p.read_bytes()).hexdigest()) for p in files]


def all_commands(lab, source):
    """Everything that has workers, on one checkpoint."""
    lab.same("verify", source)
    lab.same("verify", source, more=["--manifest", "manifest.json", "--force"])
    lab.same("verify", source, more=["--against", "manifest.json"])
    lab.same("consolidate", source, "out.pt")
    lab.same("reshard", source, "resharded", more=["--world-size", "3"])
    lab.same("verify", "out.pt", exits=(0, 1), more=["--against", "manifest.json", "--no-files"])  # 1: keys that torch would not have flattened


def many_objects(folder):
    """A torch.save file of objects alone: each becomes a byte item of its own."""
    path = folder / "objects.pt"
    pickled = pickle.dumps({f"key{i}": i for i in range(MANY)}, 2)
    path.write_bytes(recipes.archive(pickled).bytes())
    return path.name


def many_tensors(folder):
    """A safetensors file of small tensors and a few that are cut into several units."""
    path = folder / "tensors.safetensors"
    sizes = [(f"layer{i}.weight", (4, 3 + i % 5)) for i in range(MANY)] + [(f"large{i}", (1024, 900)) for i in range(3)]
    header, at = [], 0
    for name, (rows, columns) in sizes:
        header.append(f'"{name}":{{"dtype":"F32","shape":[{rows},{columns}],"data_offsets":[{at},{at + 4 * rows * columns}]}}')
        at += 4 * rows * columns
    text = ("{" + ",".join(header) + "}").encode()
    text += b" " * (-len(text) % 8)
    block = struct.pack("<1000f", *(n / 8 for n in range(-500, 500)))
    path.write_bytes(struct.pack("<Q", len(text)) + text + (block * (at // len(block) + 1))[:at])
    return path.name


# ---- parts


def part_fixtures(lab):
    for folder in sorted(DATA.glob("*/ckpt")):
        all_commands(lab, folder)


def part_many_objects(lab):
    source = many_objects(lab.folder)
    all_commands(lab, source)
    lab.same("convert", source, "folder", more=["--world-size", "2"])
    all_commands(lab, "folder")


def part_many_tensors(lab):
    source = many_tensors(lab.folder)
    lab.same("convert", source, "folder", more=["--world-size", "5"])
    all_commands(lab, "folder")
    lab.same("cast", "folder", "half", more=["--dtype", "float8_e4m3fn", "--dtype-scope", "all"])
    lab.same("consolidate", "folder", "shards", more=["--max-shard-size", "1MB", "--verify-after"])


def part_everyday(lab):
    """What compares, shows, lists and deletes."""
    lab.run("convert", many_tensors(lab.folder), "folder", "--world-size", "5", "--no-sync", "-q")
    lab.run("cast", "folder", "half", "--dtype", "bfloat16", "--dtype-scope", "all", "--no-sync", "-q")
    lab.run("reshard", "folder", "other", "--world-size", "2", "--no-sync", "-q")
    lab.same("diff", "folder", more=["other"])
    lab.same("diff", "folder", exits=(1,), more=["half", "--compare-as", "float32"])
    lab.same("extract", "folder", more=["large1", "--stats"])
    lab.same("extract", "folder", more=["large1", "--slice", "::100, 3:7", "--format", "json", "-o", "-"])
    lab.same("inspect", "folder", more=["--stats", "large*"])
    for step in range(1, 41):
        shutil.copytree(DATA / "titan_like" / "ckpt", lab.path(f"run/step-{step}"))
    lab.same("list", "run", more=["--latest"])
    lab.same("prune", "run", more=["--keep-latest", "3", "--keep-every", "10", "--dry-run"])
    for threads in THREADS:
        shutil.copytree(lab.path("run"), lab.path(f"run{threads}"))
        lab.run("prune", f"run{threads}", "--keep-latest", "2", "--drop-optimizer", "--yes", "-q", f"-j{threads}")
        digests = [digest(lab.path(f"run{n}")) for n in (1, threads)]
        if digests[0] != digests[1]:
            sys.exit(f"prune --drop-optimizer with {threads} threads leaves something else than with 1")


def part_damage(lab):
    """Faults are collected from all workers; where they end the run, the first one is told."""
    for source, name in ((many_objects(lab.folder), "objects"), (many_tensors(lab.folder), "tensors")):
        lab.run("convert", source, name, "--world-size", "3", "--no-sync", "-q")
        for file in lab.path(name).glob("*.distcp"):
            data = bytearray(file.read_bytes())
            for at in range(700, len(data), len(data) // 50 + 7):
                data[at] ^= 0x10
            file.write_bytes(data)
        lab.same("verify", name, exits=(1,))
        lab.same("verify", name, exits=(1,), more=["--sample", "30"])
        lab.same("consolidate", name, "none.pt", exits=(3,))


def part_progress(lab):
    """A display ticks beside the workers; a signal stops them."""
    source = many_tensors(lab.folder)
    lab.run("bench", "io", "big", "--bytes", "200MB", "--generate-only", "-j3", "-q")
    for form in ("bar", "plain", "json"):
        lab.run("verify", "big", "-j3", "--progress", form)
        lab.run("consolidate", "big", "big.pt", "--no-sync", "--force", "-j16", "--progress", form)
    lab.run("convert", source, "folder", "-j16", "--progress", "bar", "--no-sync")
    for after in (0.05, 0.2, 0.4, 0.8):
        for words in (["verify", "big"], ["consolidate", "big", "stopped.pt", "--force"]):
            words += ["-j16", "--progress", "json"]
            child = subprocess.Popen([lab.program, *words], cwd=lab.folder, env={**os.environ, **TSAN}, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
            time.sleep(after)
            child.send_signal(signal.SIGINT)
            lab.check(words, 0, child.communicate(timeout=SECONDS)[1], (0,))
            lab.check(words, child.returncode, "", (0, 130, -signal.SIGINT))  # finished, stopped, not yet begun


def part_staging(lab):
    """Streams that are threads, a writer behind the training loop, several devices at once."""
    lab.run("bench", "staging", "--device", "cpu", "--sizes", "1KiB..4MiB", "--count", "3", "--streams", "1,2", "--repeats", "2", "--warmup", "1", "-q")
    lab.run("bench", "staging", "--device", "cpu", "--like", DATA / "fsdp2_ws4" / "ckpt", "--save", "train", "--steps", "6", "--save-every", "2", "--step-time", "10", "--no-sync", "-q")
    lab.run("bench", "io", "--bytes", "20MB", "--repeats", "1", "-j3", "-q")


def main():
    program, parts = str(Path(sys.argv[1]).resolve()), sys.argv[2:]
    for name in parts:
        with tempfile.TemporaryDirectory() as scratch:
            lab = Lab(program, Path(scratch))
            globals()["part_" + name.replace("-", "_")](lab)
            print(f"{name}: {lab.runs} runs")


if __name__ == "__main__":
    main()
