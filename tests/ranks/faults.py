#!/usr/bin/env python3
"""Ranks that fail: the others end in time, and nothing is left.

    faults.py DCPCTL PYTHON fault NAME    one way to fail
    faults.py DCPCTL PYTHON random RUNS   ranks killed and stopped at random times, at 2, 4 and 8 ranks
"""
import json
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from processes import DATA, DCPCTL, LOAD_S, SLACK_S, check, deal, environment, finish, free_port, leftovers, one_process, start


def expect_failure(tmp, results, survivors, text, out="out.pt"):
    for r in survivors:
        check(results[r] is not None, f"rank {r} did not end: {results}")
        check(results[r][0] == 6, f"rank {r} exits with {results[r][0]}: {results}")
    said = "".join(r[2] for r in results if r)
    check(text in said, f"nobody says '{text}': {said}")
    check(not (tmp / out).exists(), "an output was committed")


class Job:
    """Three ranks that consolidate a checkpoint, of which each sees a part."""

    world, timeout = 3, 4
    in_time = LOAD_S + timeout + SLACK_S

    def __init__(self, tmp):
        self.tmp, self.port, self.report = tmp, free_port(), tmp / "report.json"
        deal(DATA / "fsdp2_ws4" / "ckpt", tmp, self.world)
        self.args = ["consolidate", "ckpt", tmp / "out.pt", "--timeout", self.timeout, "--report", self.report]

    def start(self, rank, program=None, more=(), world=None, env=()):
        return start(self.tmp, rank, self.world, self.port, [*self.args, *more], program, environment(rank, world or self.world, self.port, env))

    def all(self, odd=None, **how):
        """What became of the ranks; `how` is for the odd one."""
        return finish([self.start(r, **(how if r == odd else {})) for r in range(self.world)], self.in_time)


def fault_missing_file(job):
    (job.tmp / "r1/ckpt/__1_0.distcp").unlink()
    results = job.all()
    check(all(r and r[0] == 3 for r in results), results)
    check("__1_0.distcp" in results[0][2] and "no rank sees the file" in results[0][2] and "tensor '" in results[0][2], results[0][2])


def fault_damage(job):
    path = job.tmp / "r1/ckpt/__1_0.distcp"
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    results = job.all()
    check(any(r and r[0] == 3 for r in results) and all(r and r[0] in (3, 6) for r in results), results)
    check("__1_0.distcp" in results[0][2], results[0][2])


def fault_exists(job):
    (job.tmp / "out.pt").write_text("mine")
    results = job.all()
    check([r[0] for r in results] == [2, 6, 6], results)
    check((job.tmp / "out.pt").read_text() == "mine", "replaced")


def fault_missing_rank(job):
    results = finish([job.start(r) for r in (0, 1)], job.in_time)
    expect_failure(job.tmp, results, [0, 1], "rank 2: ")
    check(json.loads(job.report.read_text())["error"]["code"] == 6, "report")


def fault_missing_rank0(job):
    results = finish([job.start(r) for r in (1, 2)], LOAD_S + 3 * job.timeout)
    check(all(r and r[0] == 6 and "rank 0" in r[2] for r in results), results)


def fault_silent_store(job):
    """As a stopped rank 0 is: connections are taken, and nobody answers."""
    with socket.socket() as s:
        s.bind(("127.0.0.1", job.port))
        s.listen()
        results = finish([job.start(1)], LOAD_S + 3 * job.timeout)
    check(all(r and r[0] == 6 and "rank 0" in r[2] for r in results), results)


def fault_world_size(job):
    results = job.all(odd=1, world=2)
    check(all(r and r[0] == 6 for r in results), results)
    check("the ranks do not belong together" in results[0][2], results[0][2])


def fault_build(job):
    other = job.tmp / "other"
    shutil.copy(DCPCTL, other)
    with open(other, "ab") as f:
        f.write(b"another build")
    results = job.all(odd=2, program=other, env={"DCPCTL_MODULE_DIR": os.path.dirname(DCPCTL)}.items())
    check(all(r and r[0] == 6 for r in results), results)
    check("the ranks do not belong together" in results[0][2], results[0][2])


def fault_command_line(job):
    results = job.all(odd=1, more=["--model-only"])
    check(all(r and r[0] == 6 for r in results), results)
    check("the ranks do not belong together" in results[0][2] and not results[1][2] and not results[2][2], results)


def fault_no_memory(job):
    little = job.tmp / "little"
    little.write_text(f'#!/bin/sh\nulimit -v 300000\nexec {DCPCTL} "$@"\n')
    little.chmod(0o755)
    results = job.all(odd=2, program=little)
    expect_failure(job.tmp, results, [0, 1], "rank 2: ")
    check(results[2] and results[2][0] in (4, 5) and "dcpctl: " in results[2][2], f"the rank that lacks memory does not say so: {results[2]}")


def fault_full_disk(job):
    small = job.tmp / "small"
    small.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", small], capture_output=True).returncode != 0:
        print("skipped: no file system may be mounted here")
        sys.exit(77)
    try:
        job.args[2] = small / "out.pt"
        results = job.all()
        check([r and r[0] for r in results] == [4, 6, 6], results)
        check(not any(small.iterdir()), list(small.iterdir()))
    finally:
        subprocess.run(["umount", small])


def listeners(processes):
    """{address in hex} at which these processes listen."""
    sockets = set()
    for p in processes:
        for fd in Path(f"/proc/{p.pid}/fd").iterdir():
            try:
                sockets.add(os.readlink(fd))
            except OSError:
                pass
    rows = [line.split() for table in ("tcp", "tcp6") for line in Path(f"/proc/net/{table}").read_text().splitlines()[1:]]
    return {row[1].split(":")[0] for row in rows if row[3] == "0A" and f"socket:[{row[9]}]" in sockets}


def flooded(job, connections, talk):
    """The last rank comes when the store's port has had so many strangers, who hold on."""
    job.args[job.args.index("--timeout") + 1] = 60  # the others have to wait meanwhile
    processes, held = [job.start(r) for r in range(job.world - 1)], []
    end = time.monotonic() + LOAD_S
    while len(held) < connections and time.monotonic() < end:
        try:
            s = socket.create_connection(("127.0.0.1", job.port), timeout=1)
            held.append(s)
            talk(s, len(held))
        except OSError:
            time.sleep(0.01)
    check(len(held) == connections, f"{len(held)} connections were made")
    processes.append(job.start(job.world - 1))
    heard = set()
    while any(p.poll() is None for p in processes) and time.monotonic() < end + LOAD_S:
        heard |= listeners([p for p in processes if p.poll() is None])
        time.sleep(0.02)
    results = finish(processes, job.in_time)
    check(all(r and r[0] == 0 for r in results), results)
    check(heard == {"0100007F"}, f"MASTER_ADDR is 127.0.0.1, and they listen at {heard}")
    check((job.tmp / "out.pt").stat().st_size > 0, "no output")


def fault_silent_strangers(job):
    flooded(job, 300, lambda s, n: None)


def fault_noisy_strangers(job):
    def talk(s, n):
        s.sendall(random.Random(n).randbytes((1, 5, 64, 4096)[n % 4]))
        if n % 2:
            s.close()
    flooded(job, 1500, talk)


def fault(name):
    with tempfile.TemporaryDirectory(prefix="dcpctl-ranks-") as tmp:
        globals()["fault_" + name.replace("-", "_")](Job(Path(tmp)))
        check(not leftovers(Path(tmp)), leftovers(Path(tmp)))


def one_random_run(world, seed, big, whole):
    chance = random.Random(seed)
    timeout = 2
    victim, stop, after = chance.randrange(world), chance.random() < 0.5, chance.uniform(0, 2.5)
    with tempfile.TemporaryDirectory(prefix="dcpctl-ranks-") as tmp:
        tmp = Path(tmp)
        deal(big, tmp, world)
        out = tmp / "out.pt"
        port = free_port()
        begin = time.monotonic()
        processes = [start(tmp, r, world, port, ["consolidate", "ckpt", out, "--timeout", timeout, "--no-sync"]) for r in range(world)]
        time.sleep(after)
        done = processes[victim].poll() is not None
        if not done:  # poll() has not reaped it, so its number is still its own
            os.kill(processes[victim].pid, signal.SIGSTOP if stop else signal.SIGKILL)
        hit = time.monotonic()
        # Rank 0 may never have come up for the others: three times the timeout then.
        within = (3 if victim == 0 else 1) * timeout + SLACK_S
        results = [None] * world
        others = [r for r in range(world) if r != victim]
        for r, result in zip(others, finish([processes[r] for r in others], within + LOAD_S)):
            results[r] = result
        took = time.monotonic() - hit
        processes[victim].kill()
        results[victim] = processes[victim].communicate() and None
        what = f"seed {seed}: rank {victim} of {world} {'stopped' if stop else 'killed'} after {after:.2f} s"
        codes = [results[r] and results[r][0] for r in others]
        if done or out.exists():
            # The work was done before the victim was hit: rank 0 has committed, others may not have heard of it.
            check(out.exists() and all(c in (0, 6) for c in codes), f"{what}: {codes}")
            check(out.stat().st_size == whole, what + ": not whole")
            return "after the commit"
        check(all(c == 6 for c in codes), f"{what}: {codes}, {[results[r] and results[r][2][-300:] for r in others]}")
        # Loading LibTorch is not ours to hurry: counted from when all were up.
        check(took <= within + max(0.0, begin + 5 - hit) + LOAD_S, f"{what}: {took:.1f} s")
        check(victim == 0 or not leftovers(tmp), f"{what}: {leftovers(tmp)}")
        return took - within


def random_runs(runs):
    seed = int(os.environ.get("DCPCTL_SEED", random.randrange(10**6)))
    print("seed", seed, flush=True)
    with tempfile.TemporaryDirectory(prefix="dcpctl-ranks-") as tmp:
        big = Path(tmp) / "big"
        size = os.environ.get("DCPCTL_RANDOM_BYTES", "512MiB")
        subprocess.run([DCPCTL, "bench", "io", big, "--generate-only", "--bytes", size, "--world-size", "8"], check=True, capture_output=True)
        check(one_process(big, Path(tmp) / "whole.pt", "consolidate", "--no-sync"), "one process")
        whole = (Path(tmp) / "whole.pt").stat().st_size
        (Path(tmp) / "whole.pt").unlink()
        counts, longest = {}, -1e9
        for i in range(int(runs)):
            result = one_random_run((2, 4, 8)[i % 3], seed + i, big, whole)
            kind = result if isinstance(result, str) else "ended in time"
            longest = max(longest, -1e9 if isinstance(result, str) else result)
            counts[kind] = counts.get(kind, 0) + 1
        print(json.dumps(counts), f"the last survivor ended {-longest:.1f} s before its time was over")
        check(counts.get("ended in time", 0) > 0, "no run was hit while it ran")


if __name__ == "__main__":
    {"fault": fault, "random": random_runs}[sys.argv[3]](*sys.argv[4:])
