#!/usr/bin/env python3
"""verify over all kinds of checkpoints: no false alarm, outputs proven against a manifest of their source, and no bit that a manifest misses.

    proofs.py DCPCTL [--bits N]     N random bits for each fixture (20), over all of its files
"""
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

DATA = Path(__file__).resolve().parent.parent / "data"
FIXTURES = ["torch21", "torch26", "threads", "zstd", "nocrc", "float_meta_differs", "tp_2x2", "lightning_like"]
OUTPUTS = {  # by name: their kind, and how they are written
    "out.pt": ("torch", ["consolidate"]),
    "out.safetensors": ("safetensors", ["consolidate"]),
    "shards": ("hf", ["consolidate", "--max-shard-size", "2KB"]),
    "dcp": ("dcp", ["reshard", "--world-size", "3"]),
}
FAULTS = []


class Tool:
    def __init__(self, dcpctl, folder):
        self.dcpctl, self.folder = dcpctl, folder

    def __call__(self, *arguments):
        ran = subprocess.run([self.dcpctl, *map(str, arguments)], cwd=self.folder, capture_output=True, text=True, timeout=120)
        self.said = ran.stdout + ran.stderr
        return ran.returncode

    def expect(self, exit, *arguments):
        got = self(*arguments)
        if got != exit:
            FAULTS.append(f"{' '.join(map(str, arguments))}: exit {got}, expected {exit}: {self.said}")
        return got == exit


def flip(path, bit):
    with open(path, "r+b") as file:
        file.seek(bit // 8)
        byte = file.read(1)[0]
        file.seek(bit // 8)
        file.write(bytes([byte ^ 1 << bit % 8]))


def files_of(path):
    return [path] if path.is_file() else sorted(p for p in path.rglob("*") if p.is_file())


def each_bit(tool, path, manifest, count, rng, kinds):
    """Random bits of all files of a checkpoint: verify against its own manifest says no to each."""
    files = [f for f in files_of(path) if f.stat().st_size]
    weights = [f.stat().st_size for f in files]
    for _ in range(count):
        file = rng.choices(files, weights)[0] if rng.random() < 0.7 else rng.choice(files)  # small files get their share
        bit = rng.randrange(file.stat().st_size * 8)
        flip(file, bit)
        code = tool("verify", path.name, "--against", manifest, "-q")
        if code not in (1, 3):
            FAULTS.append(f"{kinds}: bit {bit} of {file.name} is not seen: exit {code}: {tool.said}")
        flip(file, bit)
    return count


def proofs(tool, world, rng):
    """Outputs in all formats against the manifest of the source; and that one changed element is seen."""
    done = 0
    for name, (kind, command) in OUTPUTS.items():
        if not tool.expect(0, command[0], "ckpt", name, *command[1:], "-q"):
            continue
        tool.expect(0, "verify", name, "-q")
        # Objects go verbatim into a DCP folder, with or without CRCs.
        if tool.expect(0, "verify", name, "--json", *([] if kind == "dcp" else ["--strict"])) and json.loads(tool.said)["kind"] != kind:
            FAULTS.append(f"{name} is not of kind {kind}: {tool.said}")
        # What is no DCP folder has no objects of its own, and a file of tensors alone has none at all.
        if tool.expect(0, "verify", name, "--against", "source.json", "-q"):
            done += 1
        tool.expect(0, "verify", name, "--manifest", f"{name}.json", "-q")
        done += each_bit(tool, world / name, f"{name}.json", 10, rng, name)
    return done


def main():
    dcpctl = os.path.abspath(sys.argv[1])
    bits = int(sys.argv[sys.argv.index("--bits") + 1]) if "--bits" in sys.argv else 20
    rng = random.Random(6)
    flipped = proven = 0
    with tempfile.TemporaryDirectory() as scratch:
        for fixture in FIXTURES:
            world = Path(scratch, fixture)
            shutil.copytree(DATA / fixture / "ckpt", world / "ckpt")
            tool = Tool(dcpctl, world)
            tool.expect(0, "verify", "ckpt", "-q")
            tool.expect(0, "verify", "ckpt", "--manifest", "source.json", "-q")
            tool.expect(0, "verify", "ckpt", "--against", "source.json", "-q")
            flipped += each_bit(tool, world / "ckpt", "source.json", bits, rng, fixture)
            tool.expect(0, "verify", "ckpt", "--against", "source.json", "-q")
            proven += proofs(tool, world, rng)
    for fault in FAULTS[:40]:
        print(fault)
    print(f"{flipped} bits of checkpoints, {proven} proofs and bits of outputs; {len(FAULTS)} do not hold")
    sys.exit(1 if FAULTS or not flipped or not proven else 0)


if __name__ == "__main__":
    main()
