#!/usr/bin/env python3
"""--sandbox: what the command line names still works, however it is spelled, and what it does not name cannot be reached.

    sandbox.py DCPCTL

Exits 77, which ctest shows as skipped, where the kernel has no Landlock.
"""
import json
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


# How a name may be spelled: folder is a folder, link one that leads elsewhere.
SPELLINGS = ["NAME", "./NAME", ".//NAME", "folder/NAME", "folder//NAME", "folder/../NAME", "link/NAME", "link/../NAME", "HERE/NAME"]


def spellings(dcpctl, world, form):
    """Whatever options name, spelled in this form, and folders with slashes at their end, too."""
    path = lambda name: form.replace("NAME", name).replace("HERE", str(world))

    def works(*arguments, makes=()):
        expect(f"{form}: {' '.join(arguments)}", run(dcpctl, world, *arguments, "--sandbox", "on"), 0)
        for name in makes:
            if not (world / name).exists():
                FAULTS.append(f"{form}: {' '.join(arguments)} made no {name}")

    (world / "folder").mkdir(parents=True)
    (world / "elsewhere" / "folder").mkdir(parents=True)
    os.symlink("elsewhere/folder", world / "link")
    shutil.copytree(DATA / "torch21" / "ckpt", world / path("source"))
    (world / path("assets")).mkdir()
    (world / path("assets") / "config.json").write_text("{}")
    for slash in ["", "/", "//"]:
        folder = lambda name: path(name) + slash
        works("reshard", folder("source"), folder("dcp"), "--world-size", "2", makes=[path("dcp/.metadata")])
        works("reshard", folder("source"), folder("dcp"), "--world-size", "2", "--force")
        (world / path("empty")).mkdir()
        works("reshard", folder("source"), folder("empty"), "--like", folder("dcp"), makes=[path("empty/.metadata")])
        works("cast", folder("source"), folder("bf16"), "--dtype", "bf16", makes=[path("bf16/.metadata")])
        works("consolidate", folder("source"), folder("hf"), "--max-shard-size", "600", "--assets", folder("assets"), makes=[path("hf/config.json")])
        works("convert", folder("hf"), folder("back"), "--expect", folder("hf"), makes=[path("back/.metadata")])
        for name in ["dcp", "empty", "bf16", "hf", "back"]:
            shutil.rmtree(world / path(name), ignore_errors=True)
    works("consolidate", path("source"), path("m.pt"), "--report", path("r.json"), makes=[path("m.pt"), path("r.json")])
    works("consolidate", path("source"), path("m.pt"), "--report", path("r.json"), "--force")
    works("verify", path("m.pt"), "--manifest", path("m.json"), makes=[path("m.json")])
    works("verify", path("m.pt"), "--against", path("m.json"))
    works("inspect", path("source/.metadata"), "--html", path("p.html"), makes=[path("p.html")])
    (world / path("map.json")).write_text("{}")
    works("consolidate", path("source"), path("e.pt"), "--expect", path("m.pt"), "--rename-map", path("map.json"), makes=[path("e.pt")])
    for wrong in [("consolidate", path("source"), path("w.pt/")), ("verify", path("source"), "--manifest", path("w.json/")),
                  ("inspect", path("source"), "--html", path("w.html/")), ("inspect", path("source"), "--report", path("w/"))]:  # fmt: skip
        expect(f"a file's name with a slash: {' '.join(wrong)}", run(dcpctl, world, *wrong, "--sandbox", "on"), 2)


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
        # A checkpoint that only the file of --layout names, for an output that lies apart.
        (world / "out" / "layout.json").write_text(json.dumps({"like": "run/step-1"}))
        expect("--layout", run(dcpctl, world, "reshard", "elsewhere", "out/alike", "--layout", "out/layout.json", "--sandbox", "on"), 0)
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
        shards = world / "cache" / "snapshots" / "shards"
        shards.mkdir()
        for file in sorted((world / "out" / "shards").iterdir()):
            shutil.move(file, world / "cache" / "blobs" / file.name)
            os.symlink(f"../../blobs/{file.name}", shards / file.name)
        for name in ["", "/", "/model.safetensors.index.json"]:
            expect(f"shards in the cache{name}", run(dcpctl, world, "verify", f"cache/snapshots/shards{name}", "--sandbox", "on"), 0)
        expect("links followed", run(dcpctl, world, "verify", "linked", "--follow-links", "--sandbox", "on"), 0)
        for number, form in enumerate(SPELLINGS):
            spellings(dcpctl, world / f"spelled{number}" / "here", form)
    for fault in FAULTS:
        print(fault)
    print(f"{len(FAULTS)} do not hold")
    sys.exit(1 if FAULTS else 0)


if __name__ == "__main__":
    main()
