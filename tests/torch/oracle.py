#!/usr/bin/env python3
"""What torch and safetensors load from dcpctl's output, compared with what torch loads from the source (expected.json).

    oracle.py DCPCTL probe               can this Python import what the rest needs
    oracle.py DCPCTL case NAME           everything about one case of tests/data
    oracle.py DCPCTL model-only NAME     its --model-only output goes into the module that was saved
    oracle.py DCPCTL mcore               --mcore-shapes gives what torch loads, in Megatron's shapes
    oracle.py DCPCTL hf                  --max-shard-size with --assets: the folder as safetensors reads it
    oracle.py DCPCTL inputs              files that are no DCP checkpoints
    oracle.py DCPCTL synthetic LAYOUT    torch loads what the generator of `bench io` writes
    oracle.py DCPCTL saved MODE          torch loads the checkpoints of `bench staging --save`, each of its own step
    oracle.py DCPCTL casts DTYPE         --dtype DTYPE of all floats equals Tensor.to
"""
import json
import os
import pickle
import struct
import subprocess
import sys
import tempfile
import warnings
from pathlib import Path

DATA = Path(__file__).resolve().parent.parent / "data"
sys.path.insert(0, str(DATA))
warnings.filterwarnings("ignore")

import numpy as np  # noqa: E402
import torch  # noqa: E402
import torch.distributed.checkpoint as dcp  # noqa: E402
from safetensors import safe_open  # noqa: E402
from torch.distributed.checkpoint._nested_dict import set_element  # noqa: E402

import describe  # noqa: E402
import models  # noqa: E402

# What safetensors has no name for; `quantized` tensors are more than their elements.
NO_SAFETENSORS = {"complex128", "complex32", "bcomplex32", "qint8", "quint8", "qint32"}

failures = []


def check(truth, what):
    if not truth:
        failures.append(what)
        print("FAILED:", what)


def same(got, wanted, what):
    check(got == wanted, f"{what}: got {got}, expected {wanted}")


class Case:
    def __init__(self, dcpctl, name):
        self.dcpctl, self.name = dcpctl, name
        self.checkpoint = DATA / name / "ckpt"
        self.expected = json.loads((DATA / name / "expected.json").read_text())
        self.tensors, self.objects = self.expected["tensors"], self.expected["objects"]
        self.scratch = tempfile.TemporaryDirectory()
        self.out = Path(self.scratch.name)

    def run(self, *arguments, exit_code=0):
        result = subprocess.run([self.dcpctl, *map(str, arguments)], capture_output=True, text=True)
        if result.returncode != exit_code:
            sys.exit(f"{arguments}: exit {result.returncode}, expected {exit_code}\n{result.stdout}{result.stderr}")
        return result

    def consolidate(self, name, *options, **how):
        """The output's path and the JSON document about it."""
        report = self.out / "report.json"
        result = self.run("consolidate", self.checkpoint, self.out / name, "--no-sync", "--report", report, *options, **how)
        return self.out / name, json.loads(report.read_text()), result

    def same_tensor(self, tensor, key, what):
        wanted = {field: value for field, value in self.tensors[key].items() if field != "boxes"}
        same(describe.describe_tensor(tensor), wanted, f"{what}: {key!r}")
        check(tensor.is_contiguous(), f"{what}: {key!r} is not contiguous")

    def skeleton(self, keys):
        """The nesting that torch's planner gives these keys; each leaf is its key."""
        paths = self.expected["paths"] or {key: [key] for key in self.expected["tensors"] | self.expected["objects"]}
        nested = {}
        for key in keys:
            set_element(nested, tuple(paths[key]), Leaf(key))
        return nested

    def same_nesting(self, got, wanted, what, where=()):
        if isinstance(wanted, Leaf):
            if wanted.key in self.tensors:
                check(isinstance(got, torch.Tensor), f"{what}: {where} is a {type(got)}, not a tensor")
                self.same_tensor(got, wanted.key, what)
            else:
                same(describe.describe_object(got), self.objects[wanted.key], f"{what}: {wanted.key!r}")
        elif isinstance(wanted, dict):
            check(type(got) is dict, f"{what}: {where} is a {type(got)}, not a dict")
            same(set(got), set(wanted), f"{what}: keys at {where}")
            for key in wanted:
                self.same_nesting(got[key], wanted[key], what, (*where, key))
        elif isinstance(wanted, list):
            check(type(got) is list, f"{what}: {where} is a {type(got)}, not a list")
            same(len(got), len(wanted), f"{what}: length of the list at {where}")
            for i, (one, other) in enumerate(zip(got, wanted)):
                self.same_nesting(one, other, what, (*where, i))
        else:
            same(got, wanted, f"{what}: {where}")  # a list position that no key fills


class Leaf:
    def __init__(self, key):
        self.key = key


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


def read_safetensors(path):
    with open(path, "rb") as f:
        (header_bytes,) = struct.unpack("<Q", f.read(8))
        header = json.loads(f.read(header_bytes))
    same(header_bytes % 8, 0, f"{path.name}: header bytes modulo 8")
    same(header.pop("__metadata__"), {"format": "pt"}, f"{path.name}: __metadata__")
    with safe_open(path, "pt") as f:
        return {key: f.get_tensor(key) for key in f.keys()}


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
    out, _, _ = case.consolidate("hf", "--model-only", "--max-shard-size", "8k", "--assets", base, "--verify-after")
    index = json.loads((out / "model.safetensors.index.json").read_text())
    shards = sorted(set(index["weight_map"].values()))
    check(len(shards) > 1, "only one shard")
    same(sorted(p.name for p in out.iterdir()), ["config.json", *shards, "model.safetensors.index.json"], "the folder")
    same((out / "config.json").read_text(), '{"model_type": "llama"}', "config.json")
    for key, shard in index["weight_map"].items():
        with safe_open(out / shard, "pt") as f:
            case.same_tensor(f.get_tensor(key), "model." + key, shard)


def synthetic(case, layout):
    """Shapes, boxes and values: dcp.load of the generated checkpoint equals torch.load of its consolidation."""
    folder = case.out / "ckpt"
    case.run("bench", "io", folder, "--generate-only", "--bytes", "3MB", "--world-size", "4", "--layout", layout, "--tensors", "5",
             "--dtype", "bfloat16")  # fmt: skip
    case.checkpoint = folder
    metadata = dcp.FileSystemReader(folder).read_metadata().state_dict_metadata
    state = {key: torch.empty(m.size, dtype=m.properties.dtype) for key, m in metadata.items() if hasattr(m, "size")}
    same(len(state), 5, "tensors")
    check(any(len(m.chunks) == 4 for m in metadata.values() if hasattr(m, "chunks")), "no tensor has four chunks")
    planner = dcp.DefaultLoadPlanner(flatten_state_dict=False)
    dcp.state_dict_loader._load_state_dict(state, storage_reader=dcp.FileSystemReader(folder), planner=planner, no_dist=True)
    out, _, _ = case.consolidate("out.safetensors")
    loaded = read_safetensors(out)
    same(sorted(loaded), sorted(state), "keys")
    for key in state:
        same(describe.describe_tensor(loaded[key]), describe.describe_tensor(state[key]), key)
        check(len(loaded[key].unique()) > 100, f"{key} is hardly filled")


FLOATS = ["float64", "float32", "float16", "bfloat16", "float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz"]
LIMITS = [0.0, 448.0, 464.0, 464.1, 480.0, 240.0, 248.0, 57344.0, 61440.0, 65504.0, 65519.9, 65520.0, 3.3e38, 3.4e38, 1e300, 2.0**-10, 2.0**-17,
          2.0**-24, 2.0**-25, 1.1 * 2.0**-25, 1e-40, 1e-45, 1e-320, 1 + 2.0**-8, 1 + 3 * 2.0**-9, float("inf"), float("nan")]  # fmt: skip


def of_all_magnitudes(name):
    """All patterns of up to 16 bits; else the limits of all formats, and numbers of all magnitudes that some format can tell apart."""
    dtype = getattr(torch, name)
    if dtype.itemsize <= 2:
        return torch.arange(256**dtype.itemsize, dtype=torch.int32).to(torch.uint8 if dtype.itemsize == 1 else torch.uint16).view(dtype)
    generator = torch.Generator().manual_seed(1)
    values = torch.randn(5000, dtype=torch.float64, generator=generator) * 2.0 ** torch.randint(-160, 140, (5000,), generator=generator)
    limits = torch.tensor(LIMITS, dtype=torch.float64)
    return torch.cat([values, limits, -limits]).to(dtype)


def bits(tensor):
    """Of each element, all NaN of 16 bits alike: torch's own code paths differ there."""
    if tensor.dtype in (torch.float16, torch.bfloat16):
        nan = tensor.isnan()
        return torch.where(nan, -1, tensor.contiguous().view(torch.int16).int())
    return tensor.contiguous().reshape(-1).view(torch.uint8)


def same_cast(got, source, dtype, what):
    wanted = source.to(dtype)
    same((got.dtype, got.shape), (wanted.dtype, wanted.shape), what)
    different = (bits(got) != bits(wanted)).sum().item() if got.dtype == wanted.dtype else "all"
    check(different == 0, f"{what}: {different} elements differ from Tensor.to")


def casts(case, name):
    dtype = getattr(torch, name)
    state = {
        "model": {source: of_all_magnitudes(source) for source in FLOATS},
        "integers": torch.arange(5),
        "flags": torch.tensor([True, False]),
        "complex": torch.tensor([1 + 2j]),
        "w_scale": torch.ones(3),
        "optimizer": {"step": torch.tensor(10001.0)},
        "object": {"lr": 0.1},
    }
    case.checkpoint = case.out / "ckpt"
    dcp.save(state, checkpoint_id=case.checkpoint, no_dist=True)
    for threads in ("1", "3"):
        out, report, _ = case.consolidate(f"cast{threads}.pt", "--dtype", name, "-j", threads)
        loaded = torch.load(out, weights_only=True)
        for source, tensor in state["model"].items():
            same_cast(loaded["model"][source], tensor, dtype, f"{source} to {name}")
        for key in ("integers", "flags", "complex", "w_scale"):
            check(torch.equal(loaded[key], state[key]) and loaded[key].dtype == state[key].dtype, f"{key} was cast")
        check(loaded["optimizer"]["step"].item() == 10001.0, "the optimizer's step was cast")
        same(report["cast"]["tensors"], len(FLOATS) - 1, "tensors that were cast")
        for note in report["cast"]["losses"]:
            source = state["model"][note["key"].removeprefix("model.")]
            before, after = source.double(), source.to(dtype).double()
            same(note.get("became_inf", 0), (after.isinf() & before.isfinite()).sum().item(), f"{note}: inf")
            same(note.get("became_nan", 0), (after.isnan() & ~before.isnan()).sum().item(), f"{note}: NaN")
            saturated = (before.abs() > 464) & (after.abs() == 448) if name == "float8_e4m3fn" else torch.zeros(1)  # the others have inf or NaN
            same(note.get("saturated", 0), int(saturated.sum().item()), f"{note}: saturated")
            same(note.get("became_zero", 0), ((after == 0) & (before != 0)).sum().item(), f"{note}: zero")
    out, _, _ = case.consolidate("all.safetensors", "--dtype", name, "--dtype-scope", "all", "--exclude", "complex", "--dtype-rule", "model.float32=keep")
    loaded = read_safetensors(out)
    for source, tensor in state["model"].items():
        same_cast(loaded["model." + source], tensor, torch.float32 if source == "float32" else dtype, f"safetensors: {source} to {name}")
    same_cast(loaded["optimizer.step"], state["optimizer"]["step"], dtype, "--dtype-scope all")

    # Where the stored dtype is not the metadata's, torch converts to the metadata's first.
    case.checkpoint = DATA / "float_meta_differs" / "ckpt"
    metadata = dcp.FileSystemReader(case.checkpoint).read_metadata().state_dict_metadata
    state = {key: torch.empty(m.size, dtype=m.properties.dtype) for key, m in metadata.items() if hasattr(m, "size")}
    dcp.state_dict_loader._load_state_dict(state, storage_reader=dcp.FileSystemReader(case.checkpoint), planner=dcp.DefaultLoadPlanner(), no_dist=True)
    out, _, _ = case.consolidate("differs.safetensors", "--dtype", name)
    loaded = read_safetensors(out)
    for key, tensor in state.items():
        same_cast(loaded[key], tensor, dtype if tensor.is_floating_point() else tensor.dtype, key)


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


def noise(x):
    """splitmix64, as src/exec/synthetic.h has it."""
    x = x + np.uint64(0x9E3779B97F4A7C15)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


def trained(number, step, shape, dtype):
    """Tensor `number` of the training loop after `step` (src/staging/train.h)."""
    keep, fixed = {torch.float32: (0x807FFFFF807FFFFF, 0x3F8000003F800000), torch.bfloat16: (0x807F807F807F807F, 0x3F803F803F803F80)}[dtype]
    count = int(np.prod(shape)) * dtype.itemsize
    with np.errstate(over="ignore"):
        stream = noise(np.array([1 ^ (number << 32)], np.uint64))
        words = (noise(stream + np.arange((count + 7) // 8, dtype=np.uint64)) & np.uint64(keep)) | np.uint64(fixed)
    data = words.view(np.uint8)[:count].copy()
    for at in range(0, count, 4096):
        data[at : at + 64] = 0x30 + step % 16
    return torch.from_numpy(data).view(dtype).reshape(shape)


def saved(case, mode):
    """Every checkpoint of a training loop holds its own step's bytes; the last one the model alone, in another dtype."""
    folder = case.out / "run"
    case.run("bench", "staging", "--device", "cpu", "--model", "tiny", "--optimizer", "--save", folder, "--modes", mode, "--steps", 7, "--save-every", 2,
             "--step-time", 2, "--keep-latest-k", 3, "--last-model-only", "--export-dtype", "float16", "--no-sync")  # fmt: skip
    same(sorted(p.name for p in (folder / mode).iterdir()), ["step-4", "step-6", "step-7"], "steps that are kept")
    full = dcp.FileSystemReader(folder / mode / "step-6").read_metadata().state_dict_metadata
    order = {key: number for number, key in enumerate(full)}  # the files hold tensors in the workload's order
    for step in (4, 6, 7):
        path = folder / mode / f"step-{step}"
        same(sorted(p.name for p in path.iterdir()), [".metadata", "__0_0.distcp"], "files")
        metadata = dcp.FileSystemReader(path).read_metadata()
        state = {key: torch.empty(m.size, dtype=m.properties.dtype) for key, m in metadata.state_dict_metadata.items()}
        planner = dcp.DefaultLoadPlanner(flatten_state_dict=False)
        dcp.state_dict_loader._load_state_dict(state, storage_reader=dcp.FileSystemReader(path), planner=planner, no_dist=True)
        same(set(state), {k for k in full if step < 7 or k.startswith("model.")}, f"keys of step {step}")
        for key, tensor in state.items():
            properties = full[key].properties
            wanted = trained(order[key], step, tuple(full[key].size), properties.dtype)
            if step == 7:
                wanted = wanted.to(torch.float16)
            same(describe.describe_tensor(tensor), describe.describe_tensor(wanted), f"step {step}: {key}")


def compare(got, wanted, what, where=()):
    if isinstance(wanted, torch.Tensor):
        same(describe.describe_tensor(got), describe.describe_tensor(wanted), f"{what}: {where}")
    elif isinstance(wanted, dict):
        same(sorted(map(str, got)), sorted(map(str, wanted)), f"{what}: keys at {where}")
        check(all(key in got for key in wanted), f"{what}: kinds of keys at {where}")
        for key in wanted:
            compare(got[key], wanted[key], what, (*where, key))
    elif isinstance(wanted, list) and where[-1:] != ("params",) and any(isinstance(v, (torch.Tensor, dict)) for v in wanted):
        same(len(got), len(wanted), f"{what}: {where}")
        for i, value in enumerate(wanted):
            compare(got[i], value, what, (*where, i))
    else:
        same(describe.describe_object(got), describe.describe_object(wanted), f"{what}: {where}")


def main():
    dcpctl, what, *name = sys.argv[1:]
    torch.set_num_threads(1)
    if what == "case":
        case = Case(dcpctl, *name)
        for test in [inspect, pt, safetensors, verify]:
            test(case)
    elif what == "model-only":
        model_only(Case(dcpctl, *name))
    elif what == "mcore":
        mcore(Case(dcpctl, "megatron_like"))
    elif what == "hf":
        hf(Case(dcpctl, "fsdp2_ws4"))
    elif what == "inputs":
        inputs(Case(dcpctl, "threads"))
    elif what == "synthetic":
        synthetic(Case(dcpctl, "threads"), *name)
    elif what == "saved":
        saved(Case(dcpctl, "threads"), *name)
    elif what == "casts":
        casts(Case(dcpctl, "threads"), *name)
    elif what == "probe":
        print("torch", torch.__version__)
        __import__("numpy"), __import__("zstandard")
    print(f"{len(failures)} failures")
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main()
