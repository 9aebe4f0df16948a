#!/usr/bin/env python3
"""A folder into which others write, too: while dcpctl clears what lies there, writes and commits, another process swaps names as fast as it can.

    swaps.py DCPCTL [TRIES]

Nothing but what an interrupted run has left may be removed, and nothing but what was written may become the output.
"""
import ctypes
import errno
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

DATA = Path(__file__).resolve().parent.parent / "data"
RENAME_EXCHANGE = 2
LIBC = ctypes.CDLL(None, use_errno=True)


def exchange(a, b):
    """Swaps what two names mean. False: the file system cannot."""
    return LIBC.renameat2(-100, os.fsencode(a), -100, os.fsencode(b), RENAME_EXCHANGE) == 0 or ctypes.get_errno() != errno.EINVAL


def content(path):
    if path.is_symlink() or path.is_file():
        return os.readlink(path) if path.is_symlink() else path.read_bytes()
    return {p.name: content(p) for p in sorted(path.iterdir())} if path.is_dir() else None


class World:
    def __init__(self, dcpctl, folder, arguments, out, replaced=False):
        self.dcpctl, self.folder, self.out = dcpctl, folder, folder / out
        self.arguments = [*arguments, "--progress", "none", *(["--force"] if replaced else [])]
        shutil.copytree(DATA / "torch21" / "ckpt", folder / "ckpt")
        self.run(None)
        self.whole = content(self.out)
        if not self.whole:
            raise SystemExit("an undisturbed run writes nothing")

    def run(self, names):
        """The command, and beside it a process that swaps two names."""
        swapper = os.fork() if names else 0
        if names and swapper == 0:
            a, b = (os.fsencode(n) for n in names)
            call = LIBC.renameat2
            while True:
                call(-100, a, -100, b, RENAME_EXCHANGE)
        try:
            return subprocess.run([self.dcpctl, *self.arguments], cwd=self.folder, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60)
        finally:
            if swapper:
                os.kill(swapper, signal.SIGKILL)
                os.waitpid(swapper, 0)

    def clear(self, *names):
        for name in names:
            path = self.folder / name
            if path.is_symlink() or path.is_file():
                path.unlink()
            else:
                shutil.rmtree(path, ignore_errors=True)


def clearing(world, tries):
    """A leftover of ours that is a link to somebody's folder every other moment."""
    partial, link, precious = world.folder / f".{world.out.name}.dcpctl-partial", world.folder / "link", world.folder / "precious"
    lost = 0
    for _ in range(tries):
        world.clear(world.out.name, partial.name, link.name, precious.name)
        for folder in (partial, precious):
            (folder / "sub").mkdir(parents=True)
            for name in (".metadata", "__0_0.distcp", "sub/a"):
                (folder / name).write_text(str(folder))
        if os.path.exists(partial / "sub") and _ % 2:
            shutil.rmtree(partial / "sub")
        before = content(precious)
        link.symlink_to("precious")
        world.run((partial, link))
        lost += content(precious) != before
    return f"{lost} times something of a folder beside the output was removed" if lost else None


def clearing_inside(world, tries):
    """A folder in it that is a link every other moment."""
    partial, precious = world.folder / f".{world.out.name}.dcpctl-partial", world.folder / "precious"
    lost = 0
    for _ in range(tries):
        world.clear(world.out.name, partial.name, precious.name)
        (partial / "sub").mkdir(parents=True)
        precious.mkdir()
        for n in range(30):
            (partial / "sub" / f"{n}.distcp").write_text("left")
            (precious / f"{n}.distcp").write_text("precious")
        (partial / "link").symlink_to("../precious")
        world.run((partial / "sub", partial / "link"))
        lost += len(content(precious)) != 30
    return f"{lost} times something of a folder beside the output was removed" if lost else None


def replacing(world, tries):
    """The old output, moved aside, is a link to another checkpoint every other moment."""
    old, link, precious = world.folder / f".{world.out.name}.dcpctl-old", world.folder / "link", world.folder / "precious"
    lost = 0
    for _ in range(tries):
        world.clear(world.out.name, old.name, link.name, precious.name)
        for folder in (world.out, precious):
            folder.mkdir()
            for n in range(30):
                (folder / f"{n}.distcp").write_text("older")
        link.symlink_to("precious")
        world.run((old, link))
        lost += len(content(precious)) != 30
    return f"{lost} times something of a folder beside the output was removed" if lost else None


def committing(world, tries, file=None):
    """What is written is somebody's file, or folder, every other moment; or one file in the folder is."""
    partial, evil = world.folder / f".{world.out.name}.dcpctl-partial", world.folder / "evil"
    swapped = partial / file if file else partial
    foreign = wrong = done = 0
    for _ in range(tries):
        world.clear(world.out.name, partial.name, evil.name)
        if "--force" in world.arguments and isinstance(world.whole, bytes):
            world.out.write_text("older")
        if isinstance(world.whole, bytes) or file:
            evil.write_text("evil")
        else:
            evil.mkdir()
            (evil / ".metadata").write_text("evil")
        ran = world.run((swapped, evil))
        seen = content(world.out)
        foreign += seen in (b"evil", {".metadata": b"evil"}) or (isinstance(seen, dict) and seen.get(file) == b"evil")
        wrong += ran.returncode == 0 and seen != world.whole
        done += ran.returncode == 0
    print(f"    {done} of {tries} came to their end", flush=True)
    # An exchange that had found the folder under its old name may be carried out after the last look at it, as if it came later. A busy machine
    # has that in one of fifty tries; a program that looks once has it in one of three.
    if file and max(foreign, wrong) * 10 <= tries:
        return None
    return f"{foreign} times somebody else's bytes were committed, {wrong} times without an error" if foreign or wrong else None


def committing_first(world, tries):
    return committing(world, tries, "__0_0.distcp")


def committing_last(world, tries):
    return committing(world, tries, ".metadata")


SCENES = {
    "a leftover cleared": (clearing, ["reshard", "ckpt", "out", "--world-size", "2"], "out", False),
    "a folder in a leftover": (clearing_inside, ["reshard", "ckpt", "out", "--world-size", "2"], "out", False),
    "a replaced folder removed": (replacing, ["reshard", "ckpt", "out", "--world-size", "2"], "out", True),
    "a file committed": (committing, ["consolidate", "ckpt", "out.pt"], "out.pt", False),
    "a file replaced": (committing, ["consolidate", "ckpt", "out.pt"], "out.pt", True),
    "a folder committed": (committing, ["reshard", "ckpt", "out", "--world-size", "2"], "out", False),
    "a file in a folder committed": (committing_first, ["reshard", "ckpt", "out", "--world-size", "200", "--no-sync"], "out", False),
    "the last file in a folder committed": (committing_last, ["reshard", "ckpt", "out", "--world-size", "20", "--no-sync"], "out", False),
}


def main():
    dcpctl, tries = os.path.abspath(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 60
    faults = 0
    with tempfile.TemporaryDirectory() as scratch:
        a, b = Path(scratch) / "a", Path(scratch) / "b"
        a.touch()
        b.touch()
        if not exchange(a, b):
            print("no names can be exchanged here")
            sys.exit(77)
        for n, (scene, (play, arguments, out, replaced)) in enumerate(SCENES.items()):
            folder = Path(scratch) / str(n)
            folder.mkdir()
            print(f"  {scene}", flush=True)
            if fault := play(World(dcpctl, folder, arguments, out, replaced), tries):
                faults += 1
                print(f"    {fault} in {tries} tries", flush=True)
    sys.exit(1 if faults else 0)


if __name__ == "__main__":
    main()
