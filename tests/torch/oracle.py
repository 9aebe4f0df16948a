#!/usr/bin/env python3
"""What torch and safetensors load from dcpctl's output, compared with what torch loads from the source (expected.json).

    oracle.py DCPCTL probe               can this Python import what the rest needs
    oracle.py DCPCTL case NAME...        everything about these cases of tests/data
    oracle.py DCPCTL model-only NAME...  their --model-only output goes into the module that was saved
    oracle.py DCPCTL mcore               --mcore-shapes gives what torch loads, in Megatron's shapes
    oracle.py DCPCTL hf                  --max-shard-size with --assets: the folder as safetensors reads it
    oracle.py DCPCTL inputs              files that are no DCP checkpoints
    oracle.py DCPCTL roots               --add-root puts a state dict where torch looks for it, from every kind of source
"""
import json
import pickle
import sys

import torch
import torch.distributed.checkpoint as dcp
from safetensors import safe_open

from case import NO_SAFETENSORS, Case, Leaf, check, compare, finish, read_safetensors, same
import describe
import models

# ---- the tests of one case


def inspect(case):
    """inspect --json tells what torch's own classes tell."""
    document = json.loads(case.run("inspect", case.checkpoint, "--json").stdout)
    metadata = dcp.FileSystemReader(case.checkpoint).read_metadata()
    got = {t["key"]: t for t in document["tensors"]}
    same(list(got), sorted(case.tensors), "inspect: tensor keys")
    same([b["key"] for b in document["blobs"]], sorted(case.objects), "inspect: object keys")
    same(document["summary"]["tensors"], len(case.tensors), "inspect: tensors")
    same(document["summary"]["blobs"], len(case.objects), "inspect: blobs")
    infos = {(i.fqn, None if i.offset is None else tuple(i.offset)): s for i, s in metadata.storage_data.items()}
    place = lambda info: {"file": info.relative_path, "file_offset": info.offset, "length": info.length}
    for key in case.tensors:
        entry = metadata.state_dict_metadata[key]
        same(got[key]["dtype"], describe.dtype_name(entry.properties.dtype), f"inspect: dtype of {key!r}")
        same(got[key]["shape"], list(entry.size), f"inspect: shape of {key!r}")
        chunks = {tuple(c["offsets"]): c for c in got[key]["chunks"]}
        wanted = {tuple(c.offsets): {"offsets": list(c.offsets), "sizes": list(c.sizes), **place(infos[key, tuple(c.offsets)])} for c in entry.chunks}
        same({at: {k: v for k, v in c.items() if k != "transforms"} for at, c in chunks.items()}, wanted, f"inspect: chunks of {key!r}")
    for blob in document["blobs"]:
        wanted = place(infos[blob["key"], None])
        same({k: blob[k] for k in wanted}, wanted, f"inspect: place of {blob['key']!r}")
    if metadata.planner_data:
        for entry in document["tensors"] + document["blobs"]:
            same(entry["path"], list(metadata.planner_data[entry["key"]]), f"inspect: path of {entry['key']!r}")


def pt(case):
    every = [*case.tensors, *case.objects]
    out, report, _ = case.consolidate("full.pt")
    case.same_nesting(torch.load(out, weights_only=False), case.skeleton(every), "torch.load")
    case.same_nesting(torch.load(out, weights_only=False, mmap=True), case.skeleton(every), "torch.load(mmap=True)")

    unsafe = case.expected["unsafe"]
    same(sorted(note["key"] for note in report["unsafe"]), sorted(unsafe), "keys that weights_only=True refuses")
    if unsafe:
        try:
            torch.load(out, weights_only=True)
            check(False, "weights_only=True takes a file that holds unsafe objects")
        except pickle.UnpicklingError:
            pass
        out, report, _ = case.consolidate("safe.pt", "--weights-only-safe")
    safe = [key for key in every if key not in unsafe]
    case.same_nesting(torch.load(out, weights_only=True), case.skeleton(safe), "weights_only=True")

    if case.tensors:
        out, _, _ = case.consolidate("tensors.pt", "--tensors-only")
        case.same_nesting(torch.load(out, weights_only=True), case.skeleton(case.tensors), "--tensors-only")


def safetensors(case):
    lacking = [key for key, t in case.tensors.items() if t["dtype"] in NO_SAFETENSORS]
    leave_out = []
    for key in lacking:
        leave_out += ["--exclude", glob_of(key)]
    if lacking:
        result = case.run("consolidate", case.checkpoint, case.out / "lacking.safetensors", exit_code=3)
        for key in lacking:
            check(key in result.stderr, f"the dtype of {key!r} is not named in: {result.stderr}")
        check("--exclude" in result.stderr, f"no way out in: {result.stderr}")
        check(not (case.out / "lacking.safetensors").exists(), "something was written")
    kept = [key for key in case.tensors if key not in lacking]

    out, report, _ = case.consolidate("full.safetensors", *leave_out)
    loaded = read_safetensors(out)
    same(sorted(loaded), sorted(kept), "safetensors: keys")
    for key in set(loaded) & set(kept):
        case.same_tensor(loaded[key], key, "safetensors")

    limit = 4000
    out, report, _ = case.consolidate("folder", "--max-shard-size", f"{limit}", *leave_out)
    files = sorted(p.name for p in out.glob("*.safetensors"))
    same(files, [f"model-{i + 1:05}-of-{len(files):05}.safetensors" for i in range(len(files))], "shards: names")
    index = json.loads((out / "model.safetensors.index.json").read_text())
    same(sorted(p.name for p in out.iterdir()), [*files, "model.safetensors.index.json"], "shards: the folder")
    total, where = 0, {}
    for name in files:
        loaded = read_safetensors(out / name)
        size = sum(t.numel() * t.element_size() for t in loaded.values())
        check(size <= limit or len(loaded) == 1, f"{name} holds {size} bytes of {len(loaded)} tensors")
        total += size
        for key, tensor in loaded.items():
            where[key] = name
            case.same_tensor(tensor, key, name)
    same(sorted(where), sorted(kept), "shards: keys")
    same(index["weight_map"], where, "shards: weight_map")
    same(index["metadata"]["total_size"], total, "shards: total_size")


CRC64 = []
for byte in range(256):
    for _ in range(8):
        byte = byte >> 1 ^ (0xC96C5795D7870F42 if byte & 1 else 0)
    CRC64.append(byte)


def crc64(data):
    """CRC-64/XZ."""
    crc = 0xFFFFFFFFFFFFFFFF
    for byte in data:
        crc = CRC64[(crc ^ byte) & 255] ^ crc >> 8
    return f"{crc ^ 0xFFFFFFFFFFFFFFFF:016x}"


def leaves(tree, skeleton):
    """(key, value) of everything loaded, as the skeleton names it."""
    if isinstance(skeleton, Leaf):
        yield skeleton.key, tree
    elif isinstance(skeleton, (dict, list)):
        for at in skeleton if isinstance(skeleton, dict) else range(len(skeleton)):
            yield from leaves(tree[at], skeleton[at])


def verify(case):
    """No damage; the manifest's digests are those of what torch loads, and every output proves to hold them."""
    same(crc64(b"123456789"), "995dc9bbdf1939fa", "the check value of CRC-64/XZ")
    manifest = case.out / "manifest.json"
    document = json.loads(case.run("verify", case.checkpoint, "--json", "--manifest", manifest).stdout)
    same([f for f in document["findings"] if f["severity"] in ("damage", "error")], [], "verify: findings")
    case.run("verify", case.checkpoint, "--against", manifest)
    written = json.loads(manifest.read_text())
    loaded = torch.load(case.consolidate("verified.pt")[0], weights_only=False)
    for key, value in leaves(loaded, case.skeleton([*case.tensors, *case.objects])):
        if key in case.tensors and not value.is_quantized:
            wanted = {"crc64": crc64(describe.raw_bytes(value)), "dtype": describe.dtype_name(value.dtype), "shape": list(value.shape)}
            same(written["tensors"].get(key), wanted, f"manifest: {key!r}")
    same(sorted(written["tensors"] | written["objects"]), sorted(case.tensors | case.objects), "manifest: keys")
    # A rank without items leaves an empty file that no metadata names.
    same(sorted(written["files"]), sorted(p.name for p in case.checkpoint.iterdir() if p.stat().st_size > 0), "manifest: files")


def glob_of(key):
    """`key` as a pattern that matches nothing else."""
    return "".join(f"[{c}]" if c in "*?[" else c for c in key)


def model_only(case):
    """What goes in is the module that the checkpoint was made from, built anew."""
    model, root = {
        "fsdp2_ws4": (models.Transformer, "model."),
        "app_state": (models.Toy, "app.model."),
        "titan_like": (models.Toy, ""),
        "lightning_like": (models.Lit, "state_dict."),
        "fsdp1_mnist": (models.Mnist, "model."),
    }[case.name]
    out, _, _ = case.consolidate("model.pt", "--model-only")
    fresh = model()
    fresh.load_state_dict(torch.load(out, weights_only=True), strict=True)
    for name, value in fresh.state_dict().items():
        case.same_tensor(value, root + name, "load_state_dict")
    out, _, _ = case.consolidate("model.safetensors", "--model-only")
    same(sorted(read_safetensors(out)), sorted(fresh.state_dict()), "safetensors: keys of the model")


def mcore(case):
    """The values that dcp.load gives, viewed in the shapes of mcore_data; a shape that is no view is refused."""
    metadata = dcp.FileSystemReader(case.checkpoint).read_metadata()
    shapes = {key: data["nd_reformulated_orig_global_shape"] for key, data in metadata.mcore_data.items() if data}
    state = {key: torch.empty(m.size, dtype=m.properties.dtype) for key, m in metadata.state_dict_metadata.items() if hasattr(m, "size")}
    planner = dcp.DefaultLoadPlanner(flatten_state_dict=False)
    dcp.state_dict_loader._load_state_dict(state, storage_reader=dcp.FileSystemReader(case.checkpoint), planner=planner, no_dist=True)
    no_view = "optimizer.state.exp_avg.columns"
    result = case.run("consolidate", case.checkpoint, case.out / "all.pt", "--mcore-shapes", exit_code=3)
    check(no_view in result.stderr, f"{no_view} is not named in: {result.stderr}")
    del state[no_view]
    pt, _, _ = case.consolidate("out.pt", "--mcore-shapes", "--exclude", no_view)
    st, _, _ = case.consolidate("out.safetensors", "--mcore-shapes", "--exclude", no_view)
    for loaded in (torch.load(pt, weights_only=False), read_safetensors(st)):
        for key, tensor in state.items():
            same(describe.describe_tensor(loaded[key]), describe.describe_tensor(tensor.view(shapes.get(key, tensor.shape))), key)


def hf(case):
    """The index names where each tensor is, and what stood beside the base model stands beside these weights."""
    base = case.out / "base"
    base.mkdir()
    (base / "config.json").write_text('{"model_type": "llama"}')
    (base / "model.safetensors").write_text("other weights")
    out, _, _ = case.consolidate("hf", "--model-only", "--max-shard-size", "8k", "--assets", base, "--map", "none", "--verify-after")
    index = json.loads((out / "model.safetensors.index.json").read_text())
    shards = sorted(set(index["weight_map"].values()))
    check(len(shards) > 1, "only one shard")
    same(sorted(p.name for p in out.iterdir()), ["config.json", *shards, "model.safetensors.index.json"], "the folder")
    same((out / "config.json").read_text(), '{"model_type": "llama"}', "config.json")
    for key, shard in index["weight_map"].items():
        with safe_open(out / shard, "pt") as f:
            case.same_tensor(f.get_tensor(key), "model." + key, shard)


def inputs(case):
    """Files of torch, safetensors and torch's Hugging Face writer: what is consolidated from them is what they hold."""
    import collections

    import cases
    from safetensors.torch import save_file
    from torch.distributed.checkpoint.hf_storage import HuggingFaceStorageWriter

    tensors = dict(cases.odd_tensors())
    optimizer = torch.optim.AdamW([torch.nn.Parameter(torch.ones(3))])
    optimizer.param_groups[0]["params"][0].sum().backward()
    optimizer.step()
    whole = torch.arange(100.0)
    state = {
        "tensors": tensors,
        "objects": dict(cases.odd_objects()),
        "optimizer": optimizer.state_dict(),
        "views": [whole[10:20], whole[::3], whole, torch.ones(3, 1).expand(3, 4), {"deep": whole[5:].view(5, 19).t()}],
        "ordered": collections.OrderedDict(a=1, b=collections.OrderedDict(c=torch.tensor(2))),
    }
    torch.save(state, case.out / "in.anything")
    case.checkpoint = case.out / "in.anything"
    out, _, _ = case.consolidate("out.pt")
    compare(torch.load(out, weights_only=False), torch.load(case.checkpoint, weights_only=False), "torch.save")

    plain = {k: t.resolve_conj().resolve_neg().detach().clone().contiguous() for k, t in tensors.items()
             if describe.dtype_name(t.dtype) not in NO_SAFETENSORS}  # fmt: skip
    save_file(plain, case.out / "in.safetensors")
    case.checkpoint = case.out / "in.safetensors"
    for name, load in {"o.pt": torch.load, "o.safetensors": read_safetensors}.items():
        compare(load(case.consolidate(name)[0]), plain, f"safetensors to {name}")

    small = {k: t for k, t in plain.items() if t.numel() and t.dtype in (torch.float32, torch.int64, torch.bool)}
    numbers = {k: 1 + i % 2 for i, k in enumerate(small)}
    writer = HuggingFaceStorageWriter(str(case.out / "hf"), fqn_to_index_mapping=numbers)
    dcp.state_dict_saver._save_state_dict(dict(small), writer, no_dist=True)
    case.checkpoint = case.out / "hf"
    compare(torch.load(case.consolidate("hf.pt")[0]), small, "HuggingFaceStorageWriter")

    writer = dcp.FileSystemWriter(case.out / "dcp", serialization_format=dcp.filesystem.SerializationFormat.SAFETENSORS)
    dcp.state_dict_saver._save_state_dict(dict(small), writer, no_dist=True)
    case.checkpoint = case.out / "dcp"
    compare(torch.load(case.consolidate("dcp.pt")[0]), small, "safetensors items beside .metadata")


def roots(case):
    """What lies under --add-root is what torch finds under that name, whole or by its keys, and what --root and --model-only take from there."""
    from safetensors.torch import save_file

    model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.BatchNorm1d(4))
    state = model.state_dict()  # 1.num_batches_tracked has no dims
    save_file(state, case.out / "in.safetensors")
    torch.save(state, case.out / "in.pt")
    flat = dcp.DefaultSavePlanner(flatten_state_dict=False)  # which saves no planner data
    dcp.state_dict_saver._save_state_dict(dict(state), dcp.FileSystemWriter(case.out / "in-dcp"), no_dist=True, planner=flat)
    case.run("consolidate", case.out / "in.safetensors", case.out / "in-hf", "--max-shard-size", "64")
    for source in ["in.safetensors", "in-hf", "in-dcp", "in.pt"]:
        for root in ["model", "app.model"]:
            what, folder = f"{source} under {root}", case.out / f"{source}-{root}"
            case.run("convert", case.out / source, folder, "--world-size", "2", "--add-root", root)
            nested = lambda tensors: {"app": {"model": tensors}} if root == "app.model" else {"model": tensors}
            empty = nested({k: torch.zeros_like(t) for k, t in state.items()})
            dcp.load(empty, checkpoint_id=folder)
            compare(empty, nested(state), f"{what}: dcp.load")
            by_keys = dcp.state_dict_loader._load_state_dict_from_keys({root.split(".")[0]}, checkpoint_id=folder)
            compare(by_keys, nested(state), f"{what}: by keys")
            for n, options in enumerate([("--root", root), ("--model-only",)]):
                case.run("consolidate", folder, folder / f"../{source}-{root}-{n}.pt", *options)
                back = torch.load(folder / f"../{source}-{root}-{n}.pt")
                compare(back, dict(state), f"{what}: {options}")
                model.load_state_dict(back)
            case.run("consolidate", case.out / source, case.out / f"{source}-{root}.pt", "--add-root", root)
            compare(torch.load(case.out / f"{source}-{root}.pt"), nested(dict(state)), f"{what}: to .pt")


def main():
    dcpctl, what, *names = sys.argv[1:]
    torch.set_num_threads(1)
    if what == "case":
        for name in names:
            print(name)
            case = Case(dcpctl, name)
            for test in [inspect, pt, safetensors, verify]:
                test(case)
    elif what == "model-only":
        for name in names:
            print(name)
            model_only(Case(dcpctl, name))
    elif what == "mcore":
        mcore(Case(dcpctl, "megatron_like"))
    elif what == "hf":
        hf(Case(dcpctl, "fsdp2_ws4"))
    elif what == "inputs":
        inputs(Case(dcpctl, "threads"))
    elif what == "roots":
        roots(Case(dcpctl, "threads"))
    elif what == "probe":
        print("torch", torch.__version__)
        __import__("numpy"), __import__("zstandard")
    finish()


if __name__ == "__main__":
    main()
