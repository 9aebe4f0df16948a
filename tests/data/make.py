#!/usr/bin/env python3
"""Writes the checkpoints of this folder with real torch, and beside each what torch itself loads from it.

    python tests/data/make.py [--into FOLDER] [--expected-only] [CASE...]

Needs torch 2.15.0 (CPU), numpy, zstandard; the case torch26 is written by torch 2.6.0; still older ones by make_old.py. Ranks are processes that talk gloo.
The same torch writes the same bytes again (`threads`: but for the order inside .metadata). A case is a folder CASE/ckpt/ and CASE/expected.json:

    {"case", "torch" (who loaded it; but for make_old.py also who wrote it), "world_size",
     "tensors": {key: {"dtype", "shape", "sha256" (of row-major bytes), "quantizer"?, "boxes": [[offsets, sizes]...]}},
     "objects": {key: text of describe.describe_object},
     "paths": {key: [components]} or null,
     "unsafe": [keys of the objects that torch.load(weights_only=True) refuses]}
"""
import argparse
import io
import json
import logging
import os
import pickle
import shutil
import sys
import tempfile
import warnings
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
warnings.filterwarnings("ignore")
logging.disable(logging.WARNING)

import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402
import torch.distributed.checkpoint as dcp  # noqa: E402
import torch.multiprocessing  # noqa: E402
from torch.distributed.checkpoint import filesystem  # noqa: E402
from torch.distributed.checkpoint.default_planner import DefaultLoadPlanner  # noqa: E402
from torch.distributed.checkpoint.state_dict_loader import _load_state_dict  # noqa: E402

import cases  # noqa: E402
import describe  # noqa: E402


# ---- what torch loads


def torch_load(path, info, **options):
    with open(path / info.relative_path, "rb") as f:
        f.seek(info.offset)
        item = f.read(info.length)
    if getattr(info, "transform_descriptors", None):
        from torch.distributed.checkpoint._extension import ExtensionRegistry

        (extension,) = ExtensionRegistry().from_descriptor_list(info.transform_descriptors)
        item = extension.transform_from(io.BytesIO(item)).read(-1)
    return torch.load(io.BytesIO(item), **options)


def loaded(path, key, entry, infos):
    """What dcp.load gives for one key; where it cannot load (quantized, torch 1.13), what torch.load gives for the items, joined."""
    state = {key: torch.empty(entry.size, dtype=entry.properties.dtype) if hasattr(entry, "size") else None}
    try:
        planner = DefaultLoadPlanner(flatten_state_dict=False, flatten_sharded_tensors=False)
        _load_state_dict(state, storage_reader=dcp.FileSystemReader(path), planner=planner, no_dist=True)
        return state[key]
    except BaseException:  # CheckpointException is none of Exception's
        parts = [(index.offset, torch_load(path, info, weights_only=False)) for index, info in infos.items()]
        if len(parts) == 1:
            return parts[0][1]
        for offsets, part in parts:
            state[key][tuple(slice(o, o + s) for o, s in zip(offsets, part.shape))] = part
        return state[key]


def expected(name, path, world_size):
    metadata = dcp.FileSystemReader(path).read_metadata()
    infos = {}
    for index, info in metadata.storage_data.items():
        infos.setdefault(index.fqn, {})[index] = info
    tensors, objects, unsafe = {}, {}, []
    for key, entry in metadata.state_dict_metadata.items():
        value = loaded(path, key, entry, infos[key])
        if hasattr(entry, "chunks"):
            tensors[key] = describe.describe_tensor(value) | {"boxes": [[list(c.offsets), list(c.sizes)] for c in entry.chunks]}
        else:
            objects[key] = describe.describe_object(value)
            try:
                torch_load(path, *infos[key].values(), weights_only=True)
            except pickle.UnpicklingError:
                unsafe.append(key)
    paths = metadata.planner_data
    return {
        "case": name,
        "torch": torch.__version__.split("+")[0],
        "world_size": world_size,
        "tensors": tensors,
        "objects": objects,
        "paths": paths and {key: list(p) for key, p in paths.items()},
        "unsafe": unsafe,
    }


# ---- running the ranks


def rank_main(rank, name, world_size, folder):
    torch.manual_seed(20)
    torch.set_num_threads(1)
    if hasattr(filesystem, "_generate_uuid"):
        filesystem._generate_uuid = lambda: "00000000-0000-0000-0000-000000000000"  # else each run writes another .metadata
    os.chdir(folder)  # the path given to save is kept in the checkpoint: a relative one is the same everywhere
    dist.init_process_group("gloo", init_method=f"file://{folder}/rendezvous", rank=rank, world_size=world_size)
    cases.CASES[name][1]()
    dist.barrier()
    os._exit(0)  # threads of gloo and autograd sometimes abort an orderly end, after all is written


def save(name, world_size, target):
    with tempfile.TemporaryDirectory() as scratch:
        torch.multiprocessing.spawn(rank_main, (name, world_size, scratch), world_size)
        shutil.rmtree(target, ignore_errors=True)
        target.mkdir(parents=True)
        shutil.copytree(Path(scratch, "ckpt"), target / "ckpt")


def write_json(path, document):
    """Indented, but with the leaves of tensors and boxes on one line each."""
    one_line = lambda v: json.dumps(v, ensure_ascii=False)
    members = []
    for key, value in document.items():
        if isinstance(value, dict) and value:
            value = "{\n" + ",\n".join(f"  {one_line(k)}: {one_line(v)}" for k, v in value.items()) + "\n }"
        else:
            value = one_line(value)
        members.append(f" {one_line(key)}: {value}")
    path.write_text("{\n" + ",\n".join(members) + "\n}\n")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--into", type=Path, default=HERE)
    parser.add_argument("--expected-only", action="store_true", help="the checkpoint is there, written by an older torch")
    parser.add_argument("cases", nargs="*")
    arguments = parser.parse_args()
    version = torch.__version__.split("+")[0]
    mine = [name for name, case in cases.CASES.items() if case[2] == version]
    for name in arguments.cases or mine:
        target = arguments.into / name
        world_size = 2 if arguments.expected_only else cases.CASES[name][0]
        if not arguments.expected_only:
            save(name, world_size, target)
        write_json(target / "expected.json", expected(name, target / "ckpt", world_size))
        print(name, sum(f.stat().st_size for f in target.rglob("*") if f.is_file()))


if __name__ == "__main__":
    main()
