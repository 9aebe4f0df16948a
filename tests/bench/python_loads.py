"""What `./dev bench python` measures in one process of a Python with torch: dcpctl.torch beside torch's own, in interleaved runs.

    python_loads.py WHAT CHECKPOINT FOLDER RUNS    prints {"name": of each run seconds, or bytes}, in JSON
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
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
import torch.multiprocessing as mp
from torch.distributed.checkpoint import FileSystemReader, FileSystemWriter
from torch.distributed.checkpoint.staging import DefaultStager, StagingOptions
from torch.distributed.checkpoint.state_dict_loader import _load_state_dict_from_keys

import dcpctl
from dcpctl.torch import Reader, Writer, async_save

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


def field(file, name):
    return next(int(line.split()[1]) for line in Path("/proc/self", file).read_text().splitlines() if line.startswith(name + ":"))


def used(work):
    """By a copy of this process: bytes of memory above what it had, and bytes that it read."""
    there, here = os.pipe()
    if not os.fork():
        Path("/proc/self/clear_refs").write_text("5")  # the peak begins anew
        memory, read = field("status", "VmRSS"), field("io", "rchar")
        work()
        os.write(here, json.dumps([1024 * (field("status", "VmHWM") - memory), field("io", "rchar") - read]).encode())
        os._exit(0)
    os.close(here)
    with open(there) as f:
        return json.load(f)


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


def load_uses(checkpoint, _folder, _runs):
    state = state_of(checkpoint)
    size = sum(f.stat().st_size for f in checkpoint.glob("*.distcp"))
    memory, read = used(lambda: dcp.load(state, storage_reader=Reader(checkpoint), no_dist=True))
    return {"memory": memory, "read": read, "kept": size}


def rank_main(rank, checkpoint, folder, runs):
    warnings.simplefilter("ignore")
    logging.disable(logging.CRITICAL)
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder}/rendezvous", rank=rank, world_size=2)
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import Shard, zeros

    mesh = init_device_mesh("cpu", (2,))
    with dcpctl.open(checkpoint) as ck:
        state = {key: zeros(t.shape, dtype=getattr(torch, t.dtype), device_mesh=mesh, placements=[Shard(0)]) for key, t in ck.tensors.items()}
    dcp.load(state, storage_reader=Reader(checkpoint))
    before = field("io", "rchar")
    dcp.load(state, storage_reader=Reader(checkpoint))
    read = torch.tensor(field("io", "rchar") - before)
    dist.all_reduce(read)
    found = interleaved(runs, torch=lambda: dcp.load(state, storage_reader=FileSystemReader(checkpoint)), ours=lambda: dcp.load(state, storage_reader=Reader(checkpoint)))
    if rank == 0:
        Path(folder, "found").write_text(json.dumps({**found, "read": read.item()}))
    dist.barrier()
    dist.destroy_process_group()


def ranks(checkpoint, folder, runs):
    Path(folder, "rendezvous").unlink(missing_ok=True)
    mp.spawn(rank_main, (checkpoint, folder, runs), nprocs=2)
    return {**json.loads(Path(folder, "found").read_text()), "kept": sum(f.stat().st_size for f in checkpoint.glob("*.distcp"))}


def one(checkpoint, _folder, runs):
    key = sorted(dcpctl.open(checkpoint).tensors)[-1]
    return interleaved(
        runs, torch=lambda: _load_state_dict_from_keys({key}, storage_reader=FileSystemReader(checkpoint)), ours=lambda: dcpctl.open(checkpoint)[key].torch(),
        open=lambda: dcpctl.open(checkpoint).close(),
    )


def opened(checkpoint, _folder, runs):
    return interleaved(runs, ours=lambda: dcpctl.open(checkpoint).close())


def unpickle(checkpoint):
    with open(checkpoint / ".metadata", "rb") as f:
        return pickle.load(f)


def metadata(checkpoint, _folder, runs):
    memory = {name: used(work)[0] for name, work in (("torch_memory", lambda: unpickle(checkpoint)), ("memory", lambda: Reader(checkpoint).read_metadata()))}
    return {**interleaved(runs, torch=lambda: unpickle(checkpoint), ours=lambda: Reader(checkpoint).read_metadata()), **memory}


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


def async_saves(checkpoint, folder, runs):
    """Until the training goes on, and until it is on the disk."""
    state, path = state_of(checkpoint), Path(folder, "saved")
    stager = DefaultStager(StagingOptions(False, False, False, False))
    works = {
        "torch": lambda: dcp.async_save(state, storage_writer=FileSystemWriter(path), async_stager=stager, no_dist=True), "ours": lambda: async_save(state, path),
    }
    found = {f"{name}{of}": [] for name in works for of in ("", "_stall")}
    for n in range(runs + 1):  # the first makes the stager's memory
        for name, work in works.items():
            shutil.rmtree(path, ignore_errors=True)
            os.sync()
            begin = time.perf_counter()
            made = work()
            stall = time.perf_counter() - begin
            made.result()
            if n:
                found[name].append(time.perf_counter() - begin)
                found[name + "_stall"].append(stall)
    return found


if __name__ == "__main__":
    print(json.dumps(globals()[sys.argv[1]](Path(sys.argv[2]), sys.argv[3], int(sys.argv[4]))))
