"""Processes of one command as ranks, each in a folder of its own; arguments: DCPCTL PYTHON."""
import os
import shutil
import socket
import subprocess
import sys
import time
from pathlib import Path

DATA = Path(__file__).resolve().parent.parent / "data"
DCPCTL, PYTHON = os.path.abspath(sys.argv[1]), sys.argv[2]
SLACK_S = 5  # beyond --timeout
LOAD_S = float(os.environ.get("DCPCTL_LOAD_S", 30))  # a machine that is busy with other tests takes its time to load LibTorch


def check(ok, what):
    if not ok:
        print("FAILED:", what, flush=True)
        sys.exit(1)


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def deal(source, folder, world, keep_metadata=(0,)):
    """The checkpoint `source` as `world` folders folder/rK/ckpt, each data file in one of them."""
    files = sorted(p for p in source.iterdir() if not p.name.endswith(".metadata"))
    for r in range(world):
        to = folder / f"r{r}" / "ckpt"
        to.mkdir(parents=True)
        for p in files[r::world]:
            shutil.copy(p, to)
        if r in keep_metadata:
            shutil.copy(source / ".metadata", to)


def environment(rank, world, port, more=()):
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("RANK", "WORLD_SIZE", "SLURM", "OMPI", "PMI", "MASTER", "TORCHELASTIC", "LOCAL_RANK"))}
    return {**clean, "RANK": str(rank), "WORLD_SIZE": str(world), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), **dict(more)}


def start(folder, rank, world, port, args, program=None, env=None):
    cwd = folder / f"r{rank}"
    cwd.mkdir(exist_ok=True)
    return subprocess.Popen([program or DCPCTL, *map(str, args)], cwd=cwd, env=env or environment(rank, world, port), stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def finish(processes, within):
    """[(exit, stdout, stderr)], None for one that did not end in time; then it is killed."""
    end, results = time.monotonic() + within, []
    for p in processes:
        try:
            out, err = p.communicate(timeout=max(end - time.monotonic(), 0.1))
            results.append((p.returncode, out.decode(), err.decode()))
        except subprocess.TimeoutExpired:
            results.append(None)
    for p, r in zip(processes, results):
        if r is None:
            p.kill()
            p.wait()
    return results


def by_hand(folder, world, args, within=300):
    port = free_port()
    return finish([start(folder, r, world, port, args) for r in range(world)], within)


def one_process(source, out, command, *more):
    p = subprocess.run([DCPCTL, command, source, out, *more, "--alone"], capture_output=True, text=True)
    return p.returncode == 0


def leftovers(folder):
    return sorted(str(p.relative_to(folder)) for p in folder.rglob(".*dcpctl-*"))


def content(path):
    return {str(p.relative_to(path)): p.read_bytes() for p in path.rglob("*") if p.is_file()} if path.is_dir() else path.read_bytes()
