#!/usr/bin/env python3
"""successors.py DCPCTL NAME...: checkpoints in tests/data/successors, against what the programs that wrote them load.

expected.json has each tensor's dtype, shape and the sum of its bytes, and each object: dcpctl's keys, tensors and objects are these. It says who
wrote each, finds damage to any byte of data that has a CRC, and publishes fused experts.
"""
import hashlib
import json
import shutil
import struct
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

DATA = Path(__file__).resolve().parents[1] / "data/successors"
DTYPES = {"F32": "float32", "BF16": "bfloat16", "I64": "int64", "F8_E4M3": "float8_e4m3fn"}
# Files without a rank in their name that metadata.pkl does not list are no items.
UNLISTED = {"tc-json-shared": {"config"}}
# Each rank counted its own batches: rank 0's statistics are what was expected.
OF_RANK_0 = {"accelerate-ranks", "accelerate-fsdp1-ranks"}


def run(dcpctl, *arguments):
    result = subprocess.run([dcpctl, *map(str, arguments)], capture_output=True, text=True)
    if result.returncode != 0:
        sys.exit(f"{arguments}: exit {result.returncode}\n{result.stdout}{result.stderr}")
    return result.stdout


def tensors_of(file):
    """As expected.json describes them."""
    data = file.read_bytes()
    (size,) = struct.unpack_from("<Q", data)
    header = json.loads(data[8 : 8 + size])
    header.pop("__metadata__", None)
    body = data[8 + size :]
    return {
        key: {"dtype": DTYPES[t["dtype"]], "shape": t["shape"], "sha256": hashlib.sha256(body[slice(*t["data_offsets"])]).hexdigest()}
        for key, t in header.items()
    }


def flat(key, value):
    """Keys as a state dict has them: a list without dicts is one value."""
    if isinstance(value, dict) and value:
        return {k: v for name, inner in value.items() for k, v in flat(f"{key}.{name}", inner).items()}
    return {key: value}


def shown(value):
    """As Python shows it; of bytes, expected.json has "bytes HEX xCOUNT"."""
    return repr(bytes.fromhex(value.split()[1])) if str(value).startswith("bytes ") else repr(value)


def same(what, got, wanted):
    for key in sorted(got.keys() | wanted.keys()):
        if got.get(key) != wanted.get(key):
            sys.exit(f"{what}: {key}: {got.get(key)}, expected {wanted.get(key)}")


def check(dcpctl, name, out):
    checkpoint = DATA / name / "ckpt"
    expected = json.loads((DATA / name / "expected.json").read_text())
    rank = ["--prefer-rank", "0"] if name in OF_RANK_0 else []
    run(dcpctl, "verify", checkpoint, *rank)
    run(dcpctl, "consolidate", checkpoint, out / f"{name}.safetensors", "--no-sync", *rank)
    same(name, tensors_of(out / f"{name}.safetensors"), expected["tensors"])
    wanted = {k: v for key, value in expected.get("objects", {}).items() if key not in UNLISTED.get(name, {}) for k, v in flat(key, value).items()}
    same(name, {key: run(dcpctl, "extract", checkpoint, key).strip() for key in wanted}, {key: shown(value) for key, value in wanted.items()})


def check_damage(dcpctl, out):
    """Any byte of data in a torch.save item; of safetensors it is said that nothing can be found."""
    shutil.copytree(DATA / "tc-torch/ckpt", out / "damaged")
    item = out / "damaged/model_0.pt"
    whole = item.read_bytes()
    flips = 0
    for record in zipfile.ZipFile(item).infolist():
        if "/data/" not in record.filename:
            continue
        name_bytes, extra_bytes = struct.unpack_from("<HH", whole, record.header_offset + 26)
        begin = record.header_offset + 30 + name_bytes + extra_bytes
        for at in range(begin, begin + record.file_size, 11):
            item.write_bytes(whole[:at] + bytes([whole[at] ^ 1 << at % 8]) + whole[at + 1 :])
            result = subprocess.run([dcpctl, "verify", out / "damaged"], capture_output=True, text=True)
            if result.returncode != 1 or "model_0.pt" not in result.stdout:
                sys.exit(f"a flip at {at}, in {record.filename}: exit {result.returncode}\n{result.stdout}{result.stderr}")
            flips += 1
    if flips < 40:
        sys.exit(f"only {flips} bytes of data in {item.name}")
    if "12 records without one" not in run(dcpctl, "verify", DATA / "tc-safetensors/ckpt"):
        sys.exit("safetensors items are not said to have no CRCs")


def check_published(dcpctl, out):
    """--map auto: experts that transformers has fused in memory get the names under which they are published."""
    checkpoint, layer = DATA / "transformers-shards-moe/ckpt", "model.layers.1.mlp.experts"
    fused, published = out / "fused.safetensors", out / "published.safetensors"
    run(dcpctl, "consolidate", checkpoint, fused, "--no-sync")
    run(dcpctl, "consolidate", checkpoint, published, "--map", "auto", "--no-sync")
    keys = tensors_of(published)
    wanted = {f"{layer}.{e}.{name}_proj.weight" for e in range(4) for name in ("gate", "up", "down")}
    if {key for key in keys if key.startswith(layer)} != wanted:
        sys.exit(f"--map auto: {sorted(keys)}")
    half = tensors_of(fused)[f"{layer}.down_proj"]["shape"][-1]  # rows of gate, then of up
    for e in range(4):
        for name, rows in [("gate", f"{e}, :{half}"), ("up", f"{e}, {half}:"), ("down", f"{e}")]:
            source = f"{layer}.{'down' if name == 'down' else 'gate_up'}_proj"
            part = subprocess.run([dcpctl, "extract", fused, source, "--slice", rows, "--format", "raw", "-o", "-"], capture_output=True, check=True).stdout
            if hashlib.sha256(part).hexdigest() != keys[f"{layer}.{e}.{name}_proj.weight"]["sha256"]:
                sys.exit(f"--map auto: {name} of expert {e}")


WRITERS = {  # what inspect says of who wrote it
    "tc-torch": "torch_checkpointing 0.1 layout, 2 ranks, 6 items without metadata",
    "tc-safetensors": "torch_checkpointing 0.1 layout, 2 ranks, model in safetensors, 6 items without metadata",
    "tc-safetensors-nested": "torch_checkpointing 0.1 layout, 2 ranks, model, optim_state in safetensors, 6 items without metadata",
    "tc-safetensors-strided": "torch_checkpointing 0.1 layout, 4 ranks, model in safetensors, 1 item without metadata",
    "tc-strided-uneven-9": "torch_checkpointing 0.1 layout, 4 ranks, model in safetensors",
    "accelerate-ranks": "accelerate, per-rank files",
    "accelerate-fsdp1-ranks": "accelerate, per-rank files",
    "transformers-shards-moe": "transformers",
}


def check_writers(dcpctl):
    for name, writer in WRITERS.items():
        form = json.loads(run(dcpctl, "inspect", DATA / name / "ckpt", "--json", "-q"))["writer"]["form"]
        if form != writer or f"  {writer}\n" not in run(dcpctl, "inspect", DATA / name / "ckpt", "-q"):
            sys.exit(f"{name}: written by {form}, expected {writer}")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as scratch:
        check_writers(sys.argv[1])
        check_published(sys.argv[1], Path(scratch))
        check_damage(sys.argv[1], Path(scratch))
        for name in sys.argv[2:] or sorted(p.name for p in DATA.iterdir()):
            check(sys.argv[1], name, Path(scratch))
