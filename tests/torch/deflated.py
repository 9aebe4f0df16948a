#!/usr/bin/env python3
"""deflated.py DCPCTL: .pt files and DCP items whose records a zip tool deflated; every command gives what it gives of the stored ones."""
import io
import pickle
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

import torch

from case import check, finish, same

def deflate(data, compressed=lambda name: True, folders=False):
    """The same records as a zip tool packs them."""
    out = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as old, zipfile.ZipFile(out, "w") as new:
        if folders:
            new.writestr(zipfile.ZipInfo(old.namelist()[0].partition("/")[0] + "/"), b"")
        for name in old.namelist():
            new.writestr(name, old.read(name), zipfile.ZIP_DEFLATED if compressed(name) else zipfile.ZIP_STORED)
    return out.getvalue()


def deflate_items(source, target, **how):
    """A DCP folder, each item deflated."""
    shutil.copytree(source, target)
    metadata = torch.distributed.checkpoint.FileSystemReader(source).read_metadata()
    files = {}
    for index, info in sorted(metadata.storage_data.items(), key=lambda pair: (pair[1].relative_path, pair[1].offset)):
        data = (source / info.relative_path).read_bytes()[info.offset : info.offset + info.length]
        packed = deflate(data, **how)
        body = files.setdefault(info.relative_path, bytearray())
        metadata.storage_data[index] = type(info)(info.relative_path, len(body), len(packed))
        body += packed
    for name, body in files.items():
        (target / name).write_bytes(body)
    (target / ".metadata").write_bytes(pickle.dumps(metadata))


def run(dcpctl, *arguments, exit_code=0):
    result = subprocess.run([dcpctl, *map(str, arguments)], capture_output=True, text=True)
    check(result.returncode == exit_code, f"{arguments}: exit {result.returncode}, expected {exit_code}\n{result.stdout}{result.stderr}")
    return result


def same_content(dcpctl, stored, packed, folder):
    manifest = folder / "manifest"
    run(dcpctl, "verify", stored, "--manifest", manifest)
    run(dcpctl, "verify", packed, "--against", manifest, "--no-files")
    manifest.unlink()


def dcp_load(path):
    """Keys, and tensors as bytes."""
    state = {}
    torch.distributed.checkpoint.state_dict_loader._load_state_dict(
        state, storage_reader=torch.distributed.checkpoint.FileSystemReader(path), planner=torch.distributed.checkpoint.default_planner._EmptyStateDictLoadPlanner(),
        no_dist=True)
    return [(k, repr(v) if not torch.is_tensor(v) else v.contiguous().flatten().view(torch.uint8).numpy().tobytes()) for k, v in flat(state)]


def flat(tree, path=()):
    if isinstance(tree, dict):
        for k, v in tree.items():
            yield from flat(v, (*path, k))
    else:
        yield path, tree


def same_outputs(dcpctl, stored, packed, what, folder):
    """What can be written of the packed one is what can be written of the stored one, byte by byte; items that are copied as they lie, by content."""
    for name, command in {"out.pt": "consolidate", "out.safetensors": "consolidate", "dcp": "convert"}.items():
        outs = [folder / f"{kind}-{name}" for kind in ("stored", "packed")]
        for source, out in zip((stored, packed), outs):
            drop = ["--exclude", "object*"] if name.endswith("safetensors") else []
            run(dcpctl, command, source, out, "--no-sync", "--max-memory", "512MiB", *drop)
        if name == "dcp":
            same_content(dcpctl, *outs, folder)
            check(dcp_load(outs[1]) == dcp_load(outs[0]), f"{what}: torch loads other values of {name}")
        files = [sorted(p.relative_to(out) for p in out.rglob("*") if p.is_file()) if out.is_dir() else [Path()] for out in outs]
        same(files[1], files[0], f"{what}: files of {name}")
        for file in files[0]:
            if name != "dcp":
                check((outs[0] / file).read_bytes() == (outs[1] / file).read_bytes(), f"{what}: {name}/{file} differs")
        for out in outs:
            shutil.rmtree(out) if out.is_dir() else out.unlink()
    same_content(dcpctl, stored, packed, folder)


def deflated_records(dcpctl):
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        torch.manual_seed(5)
        base = torch.randn(300, 40)
        state = {
            "large": torch.arange(3_000_000, dtype=torch.int32).reshape(3000, 1000), "one": torch.tensor([7.5]), "none": torch.empty(0, 3),
            "view": base[3:200], "columns": base.t(), "part": base[:, 5:9], "half": torch.randn(5000).to(torch.bfloat16), "flags": torch.tensor([True, False]),
            "object": {"list": [1, "two", torch.arange(1000)], "text": "x" * 5000}, "object2": {"set": {1, 2}},
        }
        torch.save(state, folder / "stored.pt")
        data = (folder / "stored.pt").read_bytes()
        torch.distributed.checkpoint.save(state, checkpoint_id=folder / "stored")
        for what, how in {"all": {}, "storages": {"compressed": lambda n: "/data/" in n}, "pickle": {"compressed": lambda n: n.endswith("data.pkl")}, "folders": {"folders": True}}.items():
            (folder / "packed.pt").write_bytes(deflate(data, **how))
            torch.load(folder / "packed.pt", weights_only=False)
            same_outputs(dcpctl, folder / "stored.pt", folder / "packed.pt", f".pt, {what}", folder)
            if what == "folders":
                continue
            deflate_items(folder / "stored", folder / "packed", **how)
            same_outputs(dcpctl, folder / "stored", folder / "packed", f"DCP, {what}", folder)
            shutil.rmtree(folder / "packed")
        # A bit of a deflated storage is damage.
        (folder / "packed.pt").write_bytes(deflate(data))
        packed = bytearray((folder / "packed.pt").read_bytes())
        packed[len(packed) // 2] ^= 4
        (folder / "packed.pt").write_bytes(packed)
        run(dcpctl, "verify", folder / "packed.pt", exit_code=1)
        run(dcpctl, "consolidate", folder / "packed.pt", folder / "out.pt", exit_code=3)


if __name__ == "__main__":
    deflated_records(sys.argv[1])
    finish()
