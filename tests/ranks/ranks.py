#!/usr/bin/env python3
"""Several ranks of one command, each in a folder of its own that holds only its shards.

    ranks.py DCPCTL PYTHON gather CASE WORLD-SIZE...   started by hand: files equal those of one process
    ranks.py DCPCTL PYTHON inputs NAME     rank-local, metadata-elsewhere, hf, pt, safetensors: checkpoints of which rank 0 does not see all
    ranks.py DCPCTL PYTHON launcher NAME   torchrun, mpirun or srun (its variables): the same
    ranks.py DCPCTL PYTHON faults NAME     one way in which ranks fail: all end in time, nothing is left
    ranks.py DCPCTL PYTHON random RUNS     ranks killed and stopped at random times, at 2, 4 and 8 ranks

Exits with 77 where the launcher is not there.
"""
import json
import os
import random
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import zipfile
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


def same(what, tmp, source, world, name, args):
    """`args` on the ranks' folders tmp/rR/ckpt give what one process gives of `source`, if it gives anything."""
    one, many, report = tmp / ("one-" + name), tmp / ("many-" + name), tmp / "report.json"
    alone = [a for i, a in enumerate(args) if "--gather" not in args[max(i - 1, 0):i + 1]]
    if not one_process(source, one, *alone):
        return False
    results = by_hand(tmp, world, [args[0], "ckpt", many, *args[1:], "--report", report])
    what = f"{what}: {' '.join(args)} on {world} ranks"
    check(all(r and r[0] == 0 for r in results), f"{what}: {results}")
    check(content(one) == content(many), f"{what}: the output differs from that of one process")
    check(all(not r[1] and not r[2] for r in results[1:]), f"{what}: only rank 0 prints: {results}")
    check(not leftovers(tmp), f"{what}: {leftovers(tmp)}")
    document = json.loads(report.read_text())
    ranks = document["ranks"]
    check(0 < document["joining_seconds"] < ranks[0]["seconds"], f"{what}: joined in {document['joining_seconds']} of {ranks[0]['seconds']} s")
    check([r["rank"] for r in ranks] == list(range(world)), f"{what}: the report")
    for r in ranks if "--gather" not in args else ():
        own = tmp / f"r{r['rank']}" / "ckpt"
        most = sum(p.stat().st_size for p in own.iterdir()) if own.is_dir() else own.stat().st_size if own.exists() else 0
        check(r["bytes_read"] <= most, f"{what}: rank {r['rank']} says that it has read {r['bytes_read']} bytes, and sees {most}")
    for out in (one, many):
        shutil.rmtree(out) if out.is_dir() else out.unlink()
    return True


GATHER = (("m.pt", ["consolidate"]), ("m.safetensors", ["consolidate"]))
MORE = (("n.pt", ["consolidate", "--gather", "none"]), ("n.safetensors", ["consolidate", "--gather", "none", "--dtype", "float16"]),
        ("folder", ["consolidate", "--gather", "none", "--max-shard-size", "64KiB"]), ("r", ["reshard", "--world-size", "3"]),
        ("rn", ["reshard", "--world-size", "5", "--gather", "none"]), ("cast", ["cast", "--dtype", "bfloat16", "--gather", "none"]))


def gather(case, *worlds):
    source, ran = DATA / case / "ckpt", 0
    for world in map(int, worlds):
        with tempfile.TemporaryDirectory(prefix="dcpctl-ranks-") as tmp:
            tmp = Path(tmp)
            deal(source, tmp, world)
            for name, args in (*GATHER, *MORE[world % 3::3]):
                ran += same(case, tmp, source, world, name, args)
            verify(case, tmp, source, world)
    check(ran > 2 * len(worlds), f"{case}: only {ran} commands ran")


def verify(case, tmp, source, world):
    manifest = tmp / "manifest"
    p = subprocess.run([DCPCTL, "verify", source, "--alone", "--no-files", "--manifest", manifest], capture_output=True, text=True)
    check(p.returncode == 0, p.stderr)
    results = by_hand(tmp, world, ["verify", "ckpt", "--against", manifest])
    check(all(r and r[0] == 0 for r in results), f"verify of {case} on {world} ranks: {results}")
    check(re.search(rf"\b[1-9][0-9]* keys? and 0 files compared with {re.escape(str(manifest))}", results[0][1]), f"verify of {case} has not compared: {results[0][1]}")
    damaged = max(tmp.glob("r*/ckpt/*.distcp"), key=lambda p: (p.stat().st_size, p))
    data = bytearray(damaged.read_bytes())
    middle = slice(len(data) // 2, len(data) // 2 + 128)  # longer than what may lie between records
    data[middle] = bytes(b ^ 1 for b in data[middle])
    damaged.write_bytes(data)
    results = by_hand(tmp, world, ["verify", "ckpt", "--against", manifest])
    check(all(r and r[0] == 1 for r in results) and damaged.name in results[0][1], f"verify of {case} with bytes changed in {damaged.name}: {results}")


def rank_local(folder):
    """As each rank of torch writes by itself."""
    program = folder / "save.py"
    program.write_text("""
import sys, torch, torch.distributed as dist, torch.distributed.checkpoint as dcp
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Shard, distribute_tensor
dist.init_process_group("gloo")
mesh = init_device_mesh("cpu", (dist.get_world_size(),))
torch.manual_seed(0)
state = {"w": distribute_tensor(torch.randn(7, 5), mesh, [Shard(0)]), "whole": torch.arange(6), "step": 3, "notes": {"lr": 0.1}}
dcp.save(state, checkpoint_id=sys.argv[1], use_collectives=False)
""")
    port = free_port()
    processes = [subprocess.Popen([PYTHON, program, folder / "source"], env=environment(r, 3, port), stdout=subprocess.PIPE, stderr=subprocess.STDOUT) for r in range(3)]
    for p in processes:
        out, _ = p.communicate(timeout=300)
        check(p.returncode == 0, out.decode())
    return folder / "source"


def inputs(name):
    """Checkpoints of other kinds, of which rank 0 does not see all."""
    with tempfile.TemporaryDirectory(prefix="dcpctl-ranks-") as tmp:
        tmp = Path(tmp)
        big = DATA / "fsdp2_ws4" / "ckpt"
        source = tmp / "source"
        if name == "rank-local":
            rank_local(tmp)
            for p in source.iterdir():
                to = tmp / f"r{int(p.name.strip('_.').split('_')[0].split('.')[0]) % 2}" / "ckpt"
                to.mkdir(parents=True, exist_ok=True)
                shutil.copy(p, to)
        elif name == "metadata-elsewhere":
            source = big
            deal(source, tmp, 2, (1,))
        elif name == "hf":
            check(one_process(big, source, "consolidate", "--max-shard-size", "4KiB", "--tensors-only"), "a folder")
            (source / "model.safetensors.index.json").unlink()  # each file says for itself what it holds
            deal(source, tmp, 2, ())
        else:
            source = tmp / ("source." + name.removeprefix("deflated-"))
            check(one_process(big, source, "consolidate", *(["--tensors-only"] if source.suffix == ".safetensors" else [])), "a file")
            if name.startswith("deflated-"):  # as a zip tool packs it again
                with zipfile.ZipFile(source) as old:
                    records = {record: old.read(record) for record in old.namelist()}
                with zipfile.ZipFile(source, "w", zipfile.ZIP_DEFLATED) as new:
                    for record, data in records.items():
                        new.writestr(record, data)
            for r in range(2):
                (tmp / f"r{r}").mkdir()
            shutil.copy(source, tmp / "r0" / "ckpt")
        command = "reshard" if source == big else "convert"
        check(same(name, tmp, source, 2, "a", [command, "--world-size", "3"]), "one process fails")
        check(same(name, tmp, source, 2, "b", [command, "--world-size", "2", "--gather", "none"]), "one process fails")


def launched(name, source, world, tmp):
    shell = tmp / "rank.sh"
    ranks = "${RANK:-${OMPI_COMM_WORLD_RANK:-$SLURM_PROCID}}"
    shell.write_text(f'#!/bin/sh\ncd "{tmp}/r{ranks}" && exec "{DCPCTL}" "$@"\n')
    shell.chmod(0o755)
    args = [shell, "consolidate", "ckpt", tmp / "many.pt"]
    port = str(free_port())
    env = {k: v for k, v in environment(0, world, port).items() if k not in ("RANK", "WORLD_SIZE")}
    if name == "torchrun":
        launch = [PYTHON, "-m", "torch.distributed.run", "--no-python", "--nproc-per-node", str(world), "--master-port", port]
    elif name == "mpirun":
        if not shutil.which("mpirun"):
            print("skipped: no mpirun")
            sys.exit(77)
        launch = ["mpirun", "--allow-run-as-root", "--oversubscribe", "-np", str(world), "-x", "MASTER_ADDR", "-x", "MASTER_PORT"]
    else:
        slurm = lambda r: {**env, "SLURM_PROCID": str(r), "SLURM_NTASKS": str(world), "SLURM_JOB_ID": "1", "SLURM_STEP_ID": "0", "SLURM_LOCALID": str(r)}
        results = finish([start(tmp, r, world, port, args[1:], shell, slurm(r)) for r in range(world)], 300)
        return all(r and r[0] == 0 for r in results), str(results)
    p = subprocess.run([*launch, *map(str, args)], env=env, capture_output=True, text=True, timeout=300)
    return p.returncode == 0, p.stderr


def launcher(name):
    source = DATA / "fsdp2_ws4" / "ckpt"
    for world in (2, 3, 4):
        with tempfile.TemporaryDirectory(prefix="dcpctl-ranks-") as tmp:
            tmp = Path(tmp)
            deal(source, tmp, world)
            check(one_process(source, tmp / "one.pt", "consolidate"), "one process")
            ok, said = launched(name, source, world, tmp)
            check(ok, f"{name} at {world} ranks: {said}")
            check((tmp / "one.pt").read_bytes() == (tmp / "many.pt").read_bytes(), f"{name} at {world} ranks: the file differs")


# ---- failures: each gives (processes' results, ranks that must exit with 6, text that some survivor prints)

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


def faults(name):
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
    {"gather": gather, "inputs": inputs, "launcher": launcher, "faults": faults, "random": random_runs}[sys.argv[3]](*sys.argv[4:])
