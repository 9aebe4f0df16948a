#!/usr/bin/env python3
"""hf_ranks.py DCPCTL: shards that torch's HuggingFaceStorageWriter leaves when several ranks save, and what dcpctl makes of them.

torch's own consolidation of such shards loses tensors without dims, misplaces some that several chunks of one rank hold, and stops at integers.
Of what it can consolidate it makes the same files.
"""
import json
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "data"))

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from safetensors.torch import load_file
from torch.distributed.checkpoint._consolidate_hf_safetensors import consolidate_safetensors_files
from torch.distributed.checkpoint.hf_storage import HuggingFaceStorageWriter
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Replicate, Shard, distribute_tensor

import describe

WORLD = 4


def whole_state():
    """Key: the tensor, its placements on a 2x2 mesh."""
    torch.manual_seed(1)
    return {
        "rows": (torch.randn(10, 6), (Shard(0), Replicate())),
        "columns": (torch.randn(6, 10).to(torch.bfloat16), (Replicate(), Shard(1))),
        "grid": (torch.randn(7, 5), (Shard(0), Shard(1))),
        "nested": (torch.randint(0, 99, (9, 3)), (Shard(0), Shard(0))),
        "fewer_rows_than_ranks": (torch.randn(3, 4), (Shard(0), Shard(0))),
        "deep": (torch.randn(2, 3, 8).to(torch.float16), (Shard(2), Shard(1))),
        "bits": (torch.rand(8, 2) > 0.5, (Shard(0), Replicate())),
        "whole": (torch.randn(4, 4), None),
        "scalar": (torch.tensor(7), None),
        "float_scalar": (torch.tensor(1.5), None),
    }


def save(rank, folder):
    dist.init_process_group("gloo", init_method=f"file://{folder}/store", rank=rank, world_size=WORLD)
    mesh = init_device_mesh("cpu", (2, 2))
    state = {key: tensor if placements is None else distribute_tensor(tensor, mesh, placements) for key, (tensor, placements) in whole_state().items()}
    floats = {key: tensor for key, tensor in state.items() if tensor.is_floating_point() and tensor.dim() > 0}
    for name, part in {"hf": state, "floats": floats}.items():
        dcp.save(part, storage_writer=HuggingFaceStorageWriter(path=f"{folder}/{name}", save_distributed=True))
    dist.destroy_process_group()


def content(path):
    if path.suffix == ".json":
        return json.loads(path.read_text())
    return {key: describe.describe_tensor(tensor) for key, tensor in load_file(path).items()}


def beside_torch(dcpctl, folder):
    """What differs from torch's consolidation into several files."""
    subprocess.run([dcpctl, "consolidate", f"{folder}/floats", f"{folder}/ours", "--max-shard-size", "400", "--no-sync", "-q"], check=True, stdout=subprocess.DEVNULL)
    weight_map = json.loads(Path(folder, "ours", "model.safetensors.index.json").read_text())["weight_map"]
    Path(folder, "torch").mkdir()
    consolidate_safetensors_files(f"{folder}/floats", f"{folder}/torch", {key: int(name.split("-")[1]) for key, name in weight_map.items()})
    failures = []
    for file in ["model.safetensors.index.json", *sorted(set(weight_map.values()))]:
        theirs, ours = (content(Path(folder, name, file)) for name in ["torch", "ours"])
        if theirs != ours:
            failures.append(f"{file}: {ours}, torch's own: {theirs}")
    if len(weight_map) != 6 or len(set(weight_map.values())) != 3:
        failures.append(f"not what torch was to consolidate: {weight_map}")
    return failures


def main():
    dcpctl = sys.argv[1]
    failures = []
    torch.set_num_threads(1)  # ranks are forked: no thread may be there before
    with tempfile.TemporaryDirectory() as folder:
        torch.multiprocessing.start_processes(save, args=(folder,), nprocs=WORLD, start_method="fork")
        for out, load in {"out.pt": torch.load, "out.safetensors": load_file}.items():
            subprocess.run([dcpctl, "consolidate", f"{folder}/hf", f"{folder}/{out}", "--no-sync", "-q"], check=True, stdout=subprocess.DEVNULL)
            loaded = load(f"{folder}/{out}")
            if set(loaded) != set(whole_state()):
                failures.append(f"{out}: keys {sorted(loaded)}")
            for key, (tensor, _) in whole_state().items():
                got, wanted = describe.describe_tensor(loaded[key]), describe.describe_tensor(tensor)
                if got != wanted:
                    failures.append(f"{out}: {key}: {got}, expected {wanted}")
        failures += beside_torch(dcpctl, folder)
        # A shard that is not there is missed, whichever it is.
        for shard in sorted(Path(folder, "hf").glob("*.safetensors")):
            away = shard.rename(Path(folder, "away"))
            result = subprocess.run([dcpctl, "consolidate", f"{folder}/hf", f"{folder}/hole.pt", "-q"], capture_output=True, text=True)
            if result.returncode != 3 or Path(folder, "hole.pt").exists():
                failures.append(f"without {shard.name}: exit {result.returncode}: {result.stderr}")
            away.rename(shard)
    print("\n".join(failures))
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
