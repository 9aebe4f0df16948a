#!/usr/bin/env python3
"""Several ranks of one command, each in a folder of its own that holds only its shards.

    ranks.py DCPCTL PYTHON gather CASE WORLD-SIZE...   started by hand: files equal those of one process
    ranks.py DCPCTL PYTHON inputs NAME     rank-local, metadata-elsewhere, hf, pt, sparse, safetensors: checkpoints of which rank 0 does not see all
    ranks.py DCPCTL PYTHON launcher NAME   torchrun, mpirun or srun (its variables): the same

Exits with 77 where the launcher is not there.
"""
import json
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

from processes import DATA, DCPCTL, PYTHON, by_hand, check, content, deal, environment, finish, free_port, leftovers, one_process, start

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
        ("rn", ["reshard", "--world-size", "5", "--gather", "none"]), ("cast", ["cast", "--dtype", "bfloat16", "--gather", "none"]),
        ("items", ["convert", "--to", "torch_checkpointing", "--world-size", "3"]),
        ("itemsn", ["reshard", "--to", "torch_checkpointing", "--world-size", "3", "--gather", "none"]))


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
        elif name == "sparse":
            source = tmp / "source.pt"
            save = "import sys, torch; w = torch.arange(12.0).reshape(3, 4); torch.save({'w': w, 'sparse': w.to_sparse(), 'step': 3}, sys.argv[1])"
            subprocess.run([PYTHON, "-c", save, source], check=True)
            (tmp / "r0").mkdir()
            shutil.copy(source, tmp / "r0" / "ckpt")
            return check(same(name, tmp, source, 2, "a.pt", ["consolidate"]), "one process fails")
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


if __name__ == "__main__":
    {"gather": gather, "inputs": inputs, "launcher": launcher}[sys.argv[3]](*sys.argv[4:])
