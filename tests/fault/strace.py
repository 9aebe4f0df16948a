#!/usr/bin/env python3
"""The program as users run it, its system calls made to fail by strace: what the faults of Io are checked against.

    strace.py DCPCTL    each call of each writing command once with an error, once interrupted, once killed; stopped twice at once, as timeout(1) does

Exits 77, which ctest shows as skipped, where strace is missing or may not trace.
"""
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

DATA = Path(__file__).resolve().parent.parent / "data"
COMMANDS = {
    "a .pt file": ["consolidate", "ckpt", "out.pt"],
    "a .safetensors file": ["consolidate", "ckpt", "out.safetensors", "--verify-after"],
    "a folder of shards": ["consolidate", "ckpt", "out", "--max-shard-size", "600"],
    "a DCP folder": ["reshard", "ckpt", "out", "--world-size", "2"],
    "a DCP folder, cast": ["cast", "ckpt", "out", "--dtype", "bf16"],
    "a file to a DCP folder": ["convert", "model.pt", "out"],
    "a folder of torch_checkpointing": ["reshard", "ckpt", "out", "--world-size", "2", "--to", "torch_checkpointing"],
    "an empty folder": ["reshard", "ckpt", "empty", "--world-size", "2"],
}
# What fails in which way. Calls that only make room for memory or threads are not among them: memory that runs out is another test's.
ERRORS = {
    "openat": "EIO", "openat2": "EIO", "pread64": "EIO", "pwrite64": "ENOSPC", "ftruncate": "EIO", "fallocate": "ENOSPC", "fsync": "EIO",
    "linkat": "EIO", "renameat": "EIO", "renameat2": "EIO", "mkdirat": "ENOSPC", "unlinkat": "EIO", "flock": "EIO", "newfstatat": "EIO", "getdents64": "EIO",
}
RESTARTED = ["openat", "openat2", "pread64", "pwrite64", "ftruncate", "fallocate", "fsync", "flock"]
AFTER_COMMIT = {"fsync", "unlinkat", "openat", "newfstatat", "getdents64"}  # may fail when the output is in place


def files_below(folder):
    return {str(p.relative_to(folder)): p.read_bytes() if p.is_file() else None for p in sorted(folder.rglob("*"))}


class World:
    def __init__(self, dcpctl, scratch, arguments):
        self.dcpctl, self.folder, self.arguments = dcpctl, scratch / "world", arguments
        self.source = scratch / "source"
        self.in_place = "empty" in arguments
        shutil.rmtree(self.source, ignore_errors=True)
        shutil.copytree(DATA / "torch21" / "ckpt", self.source / "ckpt")
        if "model.pt" in arguments:
            subprocess.run([dcpctl, "consolidate", "ckpt", "model.pt", "-q"], cwd=self.source, check=True, stdout=subprocess.DEVNULL)
            shutil.rmtree(self.source / "ckpt")
        if self.in_place:
            (self.source / "empty").mkdir()
        self.untouched = files_below(self.source)
        self.ended = {}  # states of the folder in which a run was begun, and how it ended
        trace = scratch / "trace"
        self.run(["-o", str(trace)])
        self.complete = files_below(self.folder)
        self.counts, self.before_main = {}, {}
        for line in trace.read_text().splitlines():
            if "rt_sigaction(SIGTERM" in line and not self.before_main:
                self.before_main = dict(self.counts)  # the loader's calls, which start nothing again
            if call := re.match(r"\d+\s+(\w+)\(", line):
                self.counts[call[1]] = self.counts.get(call[1], 0) + 1

    def run(self, options, again=False, force=False):
        if not again:
            shutil.rmtree(self.folder, ignore_errors=True)
            shutil.copytree(self.source, self.folder)
        command = [self.dcpctl, *self.arguments, "-j", "1", "--progress", "none"] + (["--force"] if force else [])
        tracer = ["strace", "-f", "-qq", *options] if options else []
        return subprocess.run(tracer + command, cwd=self.folder, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60)

    def fault(self, call, k, what):
        how = {"kill": "signal=SIGKILL", "twice": "signal=SIGTERM"}.get(what, f"error={what}")
        times = f"{k}..{k + 1}" if what == "twice" else k
        ran = self.run(["-o", "/dev/null", "--seccomp-bpf", "-e", f"trace={call}", "-e", f"inject={call}:{how}:when={times}"])
        now = files_below(self.folder)
        source = {n: b for n, b in now.items() if n in self.untouched}
        if source != self.untouched:
            return "the source has changed"
        ours = {n for n in now if ".dcpctl-" in n}
        seen = {n: b for n, b in now.items() if n not in ours}
        # A folder that is filled is no checkpoint until its last file is there.
        half = self.in_place and what == "kill" and "empty/.metadata" not in seen
        if seen != self.untouched and seen != self.complete and not half:
            return f"exit {ran.returncode}: neither nothing nor all: {sorted(seen.keys() ^ self.complete.keys()) or 'other bytes'}: {ran.stderr}"
        if what == "EINTR" and ran.returncode != 0:
            return f"interrupted it fails: {ran.stderr}"
        if what == "twice" and ran.returncode not in (0, 143):
            return f"stopped twice it ends with {ran.returncode}"
        if what != "kill":
            if ran.returncode == 0 and seen != self.complete:
                return "exit 0 without the output"
            if ran.returncode != 0 and seen == self.complete and call not in AFTER_COMMIT:
                return f"exit {ran.returncode} with the output: {ran.stderr}"
            if ours and seen != self.complete and call != "unlinkat":
                return f"left behind: {sorted(ours)}"
        return self.next_run(now, seen, ours)

    def next_run(self, now, seen, ours):
        """Once in each state of the folder: the same files end in the same way."""
        state = frozenset(now.items())
        if state not in self.ended:
            again = self.run([], again=True, force=seen == self.complete)
            replaced = self.in_place and seen == self.complete  # with its working names
            if again.returncode != 0 or files_below(self.folder) != self.complete:
                self.ended[state] = f"the next run fails: {again.stderr}"
            elif not replaced and any(not n.endswith("-lock") for n in ours) and "interrupted run" not in again.stderr:
                self.ended[state] = "the next run does not say what it found"
            else:
                self.ended[state] = None
        return self.ended[state]


def may_trace():
    try:
        return subprocess.run(["strace", "-qq", "-o", "/dev/null", "-e", "inject=getppid:error=EIO:when=1", "true"], stderr=subprocess.DEVNULL).returncode == 0
    except OSError:
        return False


def main():
    if not may_trace():
        print("strace is missing, or may not trace here")
        sys.exit(77)
    dcpctl = os.path.abspath(sys.argv[1])
    done = bad = 0
    shared = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    with tempfile.TemporaryDirectory(dir=shared) as scratch:
        for name, arguments in COMMANDS.items():
            world = World(dcpctl, Path(scratch), arguments)
            faults = [(call, k, what) for call in ERRORS for k in range(1, world.counts.get(call, 0) + 1)
                      for what in (ERRORS[call], "kill", *(["EINTR"] if call in RESTARTED and k > world.before_main.get(call, 0) else []), *(["twice"] if call == "pwrite64" else []))]
            for call, k, what in faults:
                done += 1
                if fault := world.fault(call, k, what):
                    bad += 1
                    print(f"{name}, {call} {k} {what}: {fault}", flush=True)
    print(f"{done} system calls made to fail, {bad} times something did not hold")
    sys.exit(1 if bad or not done else 0)


if __name__ == "__main__":
    main()
