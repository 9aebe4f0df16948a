#!/usr/bin/env python3
"""What bad input may cost: time, memory and what is printed grow at most as n log n with its bytes.

    growth.py [--sanitized] DCPCTL [FAMILY...]

A family makes an input of about `n` bytes. Each of its commands is run on an input and on one 8 times as large; processor time is compared with the
first, peak memory and bytes printed with the size of the input. What a command says is left to run.py.
"""
import argparse
import os
import resource
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
import file_families  # noqa: E402, F401 - add their own
import item_families  # noqa: E402, F401
from families import FAMILIES  # noqa: E402

STEPS = (1, 8)
# n log n from 1 to 8 is 8 * (1 + 3 / log2(n)), less than 10. What is squared takes 64. Below the floor a time is start and noise.
MOST_TIMES = 20
FLOOR_SECONDS = 0.05
MEMORY_PER_BYTE = 250  # beside MEMORY_FLOOR and what `--version` takes
MEMORY_FLOOR = 24 << 20
PRINTED_PER_BYTE = 150
PRINTED_FLOOR = 64 << 10
TRIES = 3
CEILING_SECONDS = 60
CEILING_BYTES = 6 << 30


class Ran:
    def __init__(self, dcpctl, arguments, folder, limits=True):
        def limit():
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
            if limits:
                resource.setrlimit(resource.RLIMIT_AS, (CEILING_BYTES, CEILING_BYTES))

        reads, writes = os.pipe()
        errors = tempfile.TemporaryFile()
        environment = {"LC_ALL": "C.UTF-8", **{k: v for k, v in os.environ.items() if k in ("ASAN_OPTIONS", "UBSAN_OPTIONS")}}
        child = subprocess.Popen([dcpctl, *arguments], cwd=folder, env=environment, stdin=subprocess.DEVNULL, stdout=writes, stderr=errors, preexec_fn=limit)
        os.close(writes)
        signal.signal(signal.SIGALRM, lambda *_: child.kill())
        signal.alarm(CEILING_SECONDS)
        self.printed = 0
        while block := os.read(reads, 1 << 20):
            self.printed += len(block)
            if self.printed > 1 << 30:
                child.kill()
        os.close(reads)
        _, status, usage = os.wait4(child.pid, 0)
        signal.alarm(0)
        self.exit = child.returncode = os.waitstatus_to_exitcode(status)
        self.printed += errors.seek(0, os.SEEK_END)
        errors.seek(0)
        self.stderr = errors.read(4000).decode("utf-8", "replace")
        self.seconds = usage.ru_utime + usage.ru_stime
        self.peak = usage.ru_maxrss * 1024


def made_apart(family, folder, n):
    """In a process of its own: what a child's peak says begins with its parent's."""
    child = os.fork()
    if child == 0:
        try:
            family.make(folder, n)
            os._exit(0)
        except BaseException as error:
            print(f"{family.name}: {error!r}", flush=True)
            os._exit(1)
    if os.waitpid(child, 0)[1] != 0:
        sys.exit(f"{family.name}: could not be made")


def size_of(path):
    if path.is_dir():
        return sum(size_of(p) for p in path.iterdir())
    return path.stat().st_size


def faults_of(dcpctl, command, inputs, baseline, sanitized):
    """`inputs`: folder and size, for each step."""
    arguments = shlex.split(command)
    runs = []
    for folder, size in inputs:
        ran = Ran(dcpctl, arguments, folder, not sanitized)
        runs.append(ran)
        is_refused = ran.exit == 2 and any(words in ran.stderr for words in ("no such key", "no key matches", "several models"))
        if (ran.exit not in (0, 1, 3, 4) and not is_refused) or "internal" in ran.stderr:
            yield f"exit {ran.exit} for {size} bytes: {ran.stderr[:300]}"
            return
        if not sanitized and ran.peak - baseline > MEMORY_FLOOR + MEMORY_PER_BYTE * size:
            yield f"takes {(ran.peak - baseline) >> 20} MiB for {size} bytes"
            return
        if ran.printed > PRINTED_FLOOR + PRINTED_PER_BYTE * size:
            yield f"prints {ran.printed} bytes for {size}"
            return
    if sanitized:
        return
    first, size = runs[0].seconds, inputs[0][1]
    for step in range(1, len(inputs)):
        folder, bytes_now = inputs[step]
        most = MOST_TIMES / STEPS[-1] * bytes_now / size
        seconds = runs[step].seconds
        for _ in range(TRIES):
            if seconds <= most * max(first, FLOOR_SECONDS):
                break
            seconds = min(seconds, Ran(dcpctl, arguments, folder).seconds)
        else:
            yield f"takes {first:.2f} s for {size} bytes, {seconds:.2f} s for {bytes_now}"
            return


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("--sanitized", action="store_true")
    parser.add_argument("-v", action="store_true")
    parser.add_argument("dcpctl")
    parser.add_argument("families", nargs="*")
    options = parser.parse_args()
    dcpctl = str(Path(options.dcpctl).resolve())
    baseline = min(Ran(dcpctl, ["--version"], "/", not options.sanitized).peak for _ in range(TRIES))
    bad = 0
    unknown = set(options.families) - {f.name for f in FAMILIES}
    if unknown:
        sys.exit(f"no family {sorted(unknown)}")
    for family in FAMILIES:
        if options.families and family.name not in options.families:
            continue
        scratch = Path(tempfile.mkdtemp())
        try:
            inputs = []
            for step in STEPS:
                folder = scratch / str(step)
                folder.mkdir()
                made_apart(family, folder, family.first * step)
                inputs.append((folder, size_of(folder)))
            for command in family.commands:
                faults = list(faults_of(dcpctl, command, inputs, baseline, options.sanitized))
                bad += bool(faults)
                for fault in faults:
                    print(f"{family.name}: dcpctl {command}: {fault}", flush=True)
                if options.v and not faults:
                    print(f"{family.name}: dcpctl {command}: ok", flush=True)
        finally:
            shutil.rmtree(scratch)
    print(f"{len(options.families) or len(FAMILIES)} families, {bad} commands that cost too much")
    sys.exit(1 if bad else 0)


if __name__ == "__main__":
    main()
