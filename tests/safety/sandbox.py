#!/usr/bin/env python3
"""--sandbox: what the command line names still works, and what it does not name cannot be reached.

    sandbox.py DCPCTL

Exits 77, which ctest shows as skipped, where the kernel has no Landlock.
"""
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

DATA = Path(__file__).resolve().parent.parent / "data"
FAULTS = []


def run(dcpctl, folder, *arguments):
    return subprocess.run([dcpctl, *arguments], cwd=folder, capture_output=True, text=True, timeout=60)


def expect(what, ran, exit, text=""):
    if ran.returncode != exit or text not in ran.stdout + ran.stderr:
        FAULTS.append(f"{what}: exit {ran.returncode}, expected {exit} and {text!r}: {ran.stdout}{ran.stderr}")


def main():
    dcpctl = os.path.abspath(sys.argv[1])
    with tempfile.TemporaryDirectory() as scratch:
        world = Path(scratch)
        shutil.copytree(DATA / "torch21" / "ckpt", world / "run" / "step-1")
        shutil.copytree(DATA / "torch21" / "ckpt", world / "elsewhere")
        (world / "out").mkdir()
        on = run(dcpctl, world, "inspect", "elsewhere", "--sandbox", "on")
        if on.returncode == 5:
            print("no Landlock here: " + on.stderr)
            sys.exit(77)
        expect("on", on, 0)
        expect("-vv says so", run(dcpctl, world, "inspect", "elsewhere", "-v", "-v"), 0, "confined to what the command line names")
        expect("off", run(dcpctl, world, "inspect", "elsewhere", "--sandbox", "off"), 0)
        # Everything that a command line names, in one run or another.
        for arguments in [
            ("consolidate", "elsewhere", "out/m.pt", "--report", "out/r.json"),
            ("consolidate", "elsewhere", "out/m.pt", "--force", "--verify-after", "--expect", "out/m.pt"),
            ("consolidate", "run", "out/shards", "--step", "latest", "--max-shard-size", "600"),
            ("verify", "elsewhere", "--manifest", "out/m.json"),
            ("verify", "out/m.pt", "--against", "out/m.json"),
            ("verify", "out/shards/model.safetensors.index.json"),
            ("inspect", "elsewhere/.metadata"),
            ("reshard", "elsewhere", "out/dcp", "--world-size", "2"),
            ("cast", "elsewhere", "out/bf16", "--dtype", "bf16"),
            ("convert", "out/m.pt", "new", "--world-size", "2"),
        ]:
            expect(" ".join(arguments), run(dcpctl, world, *arguments, "--sandbox", "on"), 0)
        # A step that is a link; the Hugging Face cache; links with --follow-links.
        os.symlink(world / "elsewhere", world / "run" / "step-2")
        expect("a linked step", run(dcpctl, world, "verify", "run", "--step", "2", "--sandbox", "on"), 0)
        cache = world / "cache" / "snapshots" / "abc"
        cache.mkdir(parents=True)
        (world / "cache" / "blobs").mkdir()
        shutil.copytree(world / "elsewhere", world / "linked")
        for file in sorted((world / "linked").iterdir()):
            if file.suffix == ".distcp":
                shutil.move(file, world / "cache" / "blobs" / file.name)
                os.symlink(f"../../blobs/{file.name}", cache / file.name)
                os.symlink(f"../cache/blobs/{file.name}", file)
            else:
                shutil.copy(file, cache)
        expect("the cache", run(dcpctl, world, "verify", "cache/snapshots/abc", "--sandbox", "on"), 0)
        expect("links followed", run(dcpctl, world, "verify", "linked", "--follow-links", "--sandbox", "on"), 0)
    for fault in FAULTS:
        print(fault)
    print(f"{len(FAULTS)} do not hold")
    sys.exit(1 if FAULTS else 0)


if __name__ == "__main__":
    main()
