"""What `./dev bench python` measures in one process of a Python with torch: dcpctl.torch beside torch's own, in interleaved runs.

    python_loads.py WHAT CHECKPOINT FOLDER RUNS    prints {"name": seconds of each run}, in JSON
"""
import json
import logging
import os
import pickle
import shutil
import sys
import threading
import time
import warnings
from pathlib import Path

import torch
import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint import FileSystemReader, FileSystemWriter
from torch.distributed.checkpoint.state_dict_loader import _load_state_dict_from_keys

import dcpctl
from dcpctl.torch import Reader, Writer

warnings.simplefilter("ignore")
logging.disable(logging.CRITICAL)


def timed(work):
    begin = time.perf_counter()
    work()
    return time.perf_counter() - begin


def interleaved(runs, **works):
    found = {name: [] for name in works}
    for _ in range(runs):
        for name, work in works.items():
            found[name].append(timed(work))
    return found


def bare_read(checkpoint, buffer):
    """The files' bytes, read by two threads into memory that is there."""
    files = [(path, path.stat().st_size) for path in sorted(checkpoint.glob("*.distcp"))]
    pieces, at = [], 0
    for path, size in files:
        for offset in range(0, size, 16 << 20):
            pieces.append((path, offset, at + offset, min(16 << 20, size - offset)))
        at += size
    view = memoryview(buffer)[:at]

    def work(mine):
        for path, offset, to, count in mine:
            with open(path, "rb", buffering=0) as f:
                f.seek(offset)
                while count:
                    got = f.readinto(view[to : to + count])
                    to, count = to + got, count - got

    threads = [threading.Thread(target=work, args=(pieces[n::2],)) for n in range(2)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()


def state_of(checkpoint):
    """Tensors to load into, whose memory has been touched."""
    return {key: torch.zeros(t.shape, dtype=getattr(torch, t.dtype)) for key, t in dcpctl.open(checkpoint).tensors.items()}


def load(checkpoint, _folder, runs):
    state = state_of(checkpoint)
    size = sum(f.stat().st_size for f in checkpoint.glob("*.distcp"))
    buffer = torch.zeros(size, dtype=torch.uint8).numpy()
    return interleaved(
        runs,
        torch=lambda: dcp.load(state, storage_reader=FileSystemReader(checkpoint), no_dist=True),
        ours=lambda: dcp.load(state, storage_reader=Reader(checkpoint), no_dist=True),
        bare=lambda: bare_read(checkpoint, buffer),
    )


def one(checkpoint, _folder, runs):
    key = sorted(dcpctl.open(checkpoint).tensors)[-1]
    return interleaved(
        runs, torch=lambda: _load_state_dict_from_keys({key}, storage_reader=FileSystemReader(checkpoint)), ours=lambda: dcpctl.open(checkpoint)[key].torch(),
        open=lambda: dcpctl.open(checkpoint).close(),
    )


def opened(checkpoint, _folder, runs):
    return interleaved(runs, ours=lambda: dcpctl.open(checkpoint).close())


def metadata(checkpoint, _folder, runs):
    def unpickle():
        with open(checkpoint / ".metadata", "rb") as f:
            pickle.load(f)

    return interleaved(runs, torch=unpickle, ours=lambda: Reader(checkpoint).read_metadata())


def save(checkpoint, folder, runs):
    state = state_of(checkpoint)

    def write(writer):
        path = Path(folder, "saved")
        shutil.rmtree(path, ignore_errors=True)
        os.sync()
        begin = time.perf_counter()
        dcp.save(state, storage_writer=writer(path), no_dist=True)
        return time.perf_counter() - begin

    found = {"torch": [], "ours": []}
    for _ in range(runs):
        found["torch"].append(write(FileSystemWriter))
        found["ours"].append(write(Writer))
    return found


if __name__ == "__main__":
    print(json.dumps(globals()[sys.argv[1]](Path(sys.argv[2]), sys.argv[3], int(sys.argv[4]))))
