#!/usr/bin/env python3
"""Seeds of the fuzz targets, from small checkpoints that torch wrote (tests/data) and from what the malformed ones are made of (tests/bad).

    seeds.py        writes corpus/TARGET/seed-*; what else lies there (finds, under telling names) stays
"""
import io
import pickle
import struct
import sys
import tempfile
import types
import zipfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
DATA = HERE.parent / "data"
sys.path.insert(0, str(HERE.parent / "bad"))
import rank_files  # noqa: E402
import rank_items  # noqa: E402
import recipes  # noqa: E402

SMALL = ["torch113", "torch21", "torch23", "torch26", "quantized", "zstd", "nocrc", "noflatten", "big_endian", "float_meta_differs", "threads", "megatron_like"]
MOST = 24000  # bytes of a seed
NAMES = [".metadata", "__0_0.distcp", "__1_0.distcp", "__0.metadata", "__1.metadata", "model.safetensors.index.json",
         "model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors", "model.safetensors", "__2_0.distcp",
         "metadata.pkl", "model_0.pt", "model_1.pt", "model_world_size_2_rank_0.pt", "model_world_size_2_rank_1.pt",
         "model_0.safetensors", "model_1.safetensors", "config_0.json", "tokenizer_0.bin", "pytorch_model_fsdp_0_rank0.bin", "pytorch_model_fsdp_0_rank1.bin"]  # as in open_folder.cc


def write(target, name, data):
    folder = HERE / "corpus" / target
    folder.mkdir(parents=True, exist_ok=True)
    if len(data) <= MOST:
        (folder / f"seed-{name}").write_bytes(data)


def archives(data):
    """The archives that lie back to back in a data file."""
    begin = 0
    while (end := data.find(b"PK\5\6", begin)) >= 0:
        yield data[begin:end + 22]
        begin = end + 22


def folder_bytes(files):
    return b"".join(bytes([NAMES.index(name)]) + struct.pack("<I", len(data)) + data for name, data in files.items() if name in NAMES)


def pickles():
    """Pickles of items, each form once."""
    seen = set()
    for case in SMALL:
        for path in sorted((DATA / case / "ckpt").rglob("*.distcp")):
            for archive in archives(path.read_bytes()):
                try:
                    with zipfile.ZipFile(io.BytesIO(archive)) as z:
                        data = z.read(next(n for n in z.namelist() if n.endswith("data.pkl")))
                except (zipfile.BadZipFile, StopIteration):
                    continue
                if len(data) // 40 not in seen:
                    seen.add(len(data) // 40)
                    yield f"{case}-{len(data)}", data
    nested = {"a": [1, 2.5, None, True, "text", b"bytes", 1 << 70], "b": ({1, 2}, frozenset([3]), (), (1, 2, 3, 4)), "c": {}}
    shared = [nested, nested]
    shared.append(shared)
    for protocol in range(2, 6):
        yield f"values-{protocol}", pickle.dumps(shared, protocol)
    yield "repeated-numbers", pickle.dumps([tuple(range(first, first + 20)) for first in (0, 1, 0, 0, 1)], 4)
    yield "tensor", recipes.dump(recipes.rebuild(recipes.storage(count=16), (4, 4)), 2)
    yield "strides", recipes.dump(recipes.rebuild(recipes.storage(count=16), (2, 3), (8, 2), 1), 2)
    untyped = recipes.storage("torch.storage.UntypedStorage", count=64)
    yield "untyped", recipes.dump(recipes.rebuild(untyped, (4,), rest=(False, recipes.call("collections.OrderedDict"), recipes.glob("torch.float32")),
                                                  function="torch._utils._rebuild_tensor_v3"), 2)
    tensor = recipes.rebuild(recipes.storage(count=16), (16,))
    yield "parameter", recipes.dump(recipes.call("torch._utils._rebuild_parameter", tensor, True, recipes.call("collections.OrderedDict")), 2)
    yield "state-dict", recipes.dump({"model": {"w": tensor, "b": [tensor, 1]}, "step": 3}, 2)


def safetensors(tensors, metadata=None):
    """Tensors are (dtype, shape, bytes) by name."""
    import json

    header, at = ({"__metadata__": metadata} if metadata else {}), 0
    for name, (dtype, shape, size) in tensors.items():
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [at, at + size]}
        at += size
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text + bytes(range(256)) * (at // 256) + bytes(at % 256)


def small_formats():
    """What is not made of a checkpoint."""
    manifest = b'{"schema":"dcpctl.manifest/1","files":{"__0_0.distcp":{"bytes":12,"xxh3_128":"%s"}},"objects":{"step":{"crc64":"%s","bytes":9}},"tensors":{"model.w":{"crc64":"%s","dtype":"float32","shape":[4,3]},"x":{"crc64":"%s","dtype":"bool","shape":[]}}}'
    write("manifest", "one", manifest % (b"0123456789abcdef" * 2, b"0" * 16, b"f" * 16, b"0123456789abcdef"))
    write("manifest", "empty", b'{"schema": "dcpctl.manifest/1", "files": {}, "objects": {}, "tensors": {}, "more": [1]}')
    write("layout", "mesh", b'{"mesh": [2, 4], "mesh_dims": ["dp", "tp"], "placements": {"*.weight": ["shard(0)", "shard(1)"], "*.bias": "tp:shard(0)", "*": ["strided(0)", "shard(0)"]}}')
    write("layout", "world", b'{"world_size": 5, "placements": {"a": "shard(-1)", "*": ["replicate"]}}')
    write("layout", "like", b'{"like": "ckpt"}')
    for name, parts in {
        "rotary": ["size h = heads\nwq.{l} [(h d 2) i] = q.{l} [(h 2 d) i]", '{"heads": 2}', "wq.0 8 3\nwq.1 8 3"],
        "groups": ["size n = groups\nsize k = head\nsize v = k\nqkv [l (n (q + k + v)) i] = q.{l} [(n q) i], k.{l} [(n k) i], v.{l} [(n v) i]",
                   '{"groups": 3, "head": 1}', "qkv 2 12 5"],
        "experts": ["size u = g\neither\n{l}.up [e (g + u) d] = m.{l}.{e}.gate [g d], m.{l}.{e}.up [u d]\nor dense\n{l}.w | {l}.v = m.{l}.w\nend",
                    "", "m.0.0.gate 2 3\nm.0.0.up 2 3\nm.0.1.gate 2 3\nm.0.1.up 2 3\nm.1.w 4"],
        "copies": ["size l = layers\na [e f] = b.{e} [f]\nc [e f] = d.{e} [f] same as b.{e}\noptional\nm.{x} [(f 2)] = n.{x+l} [(2 f)]\nend",
                   '{"layers": 1}', "a 2 3\nc 2 3\nm.0 4"],
        "names": ["family a b\nnote c\nname $p = x.y | x\nsize l = layers | 1 + 1\na.{l} = $p.{l} unless c.d | true\nb.{m} = $p.{m+l} optional\nnone = $p.n same as $p.0\n"
                  "choice by\neither one when t\nc [(v + pad) 1] = $p.c [v]\nor two\nd = $p.c\nend\n{*} = $p.{*}",
                  '{"layers": null, "t": [1], "c": {"d": false}}', "x.0 2\nx.1 2\nx.2 2\nx.n 2\nx.c 3\nx.rest 1"],
    }.items():
        write("model_map", name, "\n----\n".join(parts).encode())
    write("rename_map", "names", b'_orig_mod.module.w\n{"model.w": "w", "model.b": "deep.er.b", "nested.x": "nested.y"}')
    write("rename_map", "swap", b'module.module._fsdp_wrapped_module.w\n{"model.w": "model.b", "model.b": "model.w", "gone": ""}')
    write("rename_map", "collide", b'\n{"model.w": "model.b"}')
    names = [(0, "step-1"), (1, "step-20"), (2, "checkpoint_5"), (3, "epoch=0-step=100.ckpt"), (0, "iter_0000100"), (4, "global_step99999999999999999999"), (5, "7"), (0, "7x")]
    for how in (0, 1):
        write("run_folder", ("latest", "number")[how], b"".join(bytes([what + 6 * how, len(name)]) + name.encode() for what, name in names))
    write("mcore", "rows", bytes([2, 2, 1, 12, 6, 4]))
    write("mcore", "pieces", bytes([3, 6, 2, 1, 6, 6, 4, 3]))
    write("mcore", "moved", bytes([2, 1, 2, 12, 6, 4]))
    write("mcore", "scalar", bytes([0, 1]))
    for kind, name in enumerate(("catalog", "facts", "problem")):
        write("wire", name, bytes([kind, 3]))
        write("wire", f"{name}-changed", bytes([kind, 1]) + struct.pack("<IB", 3, 0xFF) + struct.pack("<IB", 70, 1))
        write("wire", f"{name}-cut", bytes([kind, 7]) + struct.pack("<IB", 1 << 31 | 41, 0))


def of_ranks():
    """What each of two ranks saved, and the same beside a metadata.pkl, which may name one file for both."""
    files = [recipes.archive(recipes.dump({"w": rank_files.dtensor((4, 2), (rank_files.shard(),), (n,)), "step": 3}, 2), rank_files.DATA).bytes() for n in range(2)]
    write("open_folder", "ranks", folder_bytes({f"model_world_size_2_rank_{n}.pt": file for n, file in enumerate(files)}))
    shared = rank_files.items(model=[rank_files.at("model_0.pt")] * 2)
    for name, described in {"torch_checkpointing": rank_files.metadata(), "one-file": rank_files.metadata(metadata=shared)}.items():
        write("open_folder", name, folder_bytes({"metadata.pkl": described, "model_0.pt": files[0], "model_1.pt": files[1]}))


def of_items():
    """Items of torch_checkpointing in each form, and each malformed one."""
    for name, case in vars(rank_items).items():
        if not hasattr(case, "case"):
            continue
        with tempfile.TemporaryDirectory() as scratch:
            case(types.SimpleNamespace(folder=Path(scratch, "ckpt"), written=False))
            files = {p.name: p.read_bytes() for p in sorted(Path(scratch, "ranks").iterdir()) if not p.is_symlink()}
            write("open_folder", f"items-{name.replace('_', '-')}", folder_bytes(files))


def changed_ranks():
    """Values of one state dict, and what some ranks have instead: see rank_files.cc."""
    object_, dict_, tensor, matrix, sharded, missing = range(6)
    what, rows, dtype, content, swap, more = range(6)

    def seed(name, world, values, *changes, kind=0, prefer=1):
        text = [world - 2, kind, prefer, len(values) - 1, *(n for value in values for n in value)]
        write("rank_files", name, bytes(text + [n for change in changes for n in change]))

    model, optim = [(0, matrix, 3, 0), (1, tensor, 2, 1)], [(3, object_, 0, 2), (4, tensor, 2, 3), (5, dict_, 1, 0)]
    seed("equal", 2, model + optim)
    for kind, words in enumerate(("", "listed-")):
        seed(f"{words}two-shapes", 2, model + optim, (1, 0, rows, 2), kind=kind)
        seed(f"{words}two-dtypes", 3, model + optim, (2, 0, dtype), kind=kind, prefer=0)
        seed(f"{words}an-object-of-one", 4, model + optim, (3, 1, what, object_), (1, 2, what, matrix), kind=kind)
        seed(f"{words}other-order", 3, model + optim, (1, 0, swap, 1), (2, 2, swap, 4), (2, 3, content, 9), kind=kind)
        seed(f"{words}one-lacks", 2, model + optim, (0, 0, what, missing), (1, 0, more, 2, sharded, 2, 0), kind=kind)
    seed("sharded", 2, [(0, sharded, 2, 0), (1, tensor, 3, 0)] + optim, (1, 1, rows, 1))


def main():
    small_formats()
    changed_ranks()
    of_ranks()
    of_items()
    for case in SMALL:
        folder = DATA / case / "ckpt"
        write("metadata", case, (folder / ".metadata").read_bytes())
        if case == "megatron_like":
            write("mcore", case, (folder / ".metadata").read_bytes())
        files = {str(p.relative_to(folder)): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}
        write("open_folder", case, folder_bytes(files))
        for n, archive in zip(range(2), archives(next(d for f, d in files.items() if f.endswith(".distcp")))):
            write("zip_slice", f"{case}-{n}", archive)
    with tempfile.TemporaryDirectory() as scratch:
        checkpoint = recipes.small(Path(scratch, "ckpt"))
        checkpoint.write()
        made = {p.name: p.read_bytes() for p in checkpoint.folder.iterdir()}
    write("metadata", "made", made[".metadata"])
    write("open_folder", "made", folder_bytes(made))
    write("open_folder", "rank-local", folder_bytes({**{n: d for n, d in made.items() if n != ".metadata"}, "__0.metadata": made[".metadata"]}))
    for name, data in pickles():
        for target in ("pickle_tokens", "pickle_graph", "pickle_splice", "pickle_reduce"):
            write(target, name, data)
        for n, root in enumerate(("archive", "model")):
            a = recipes.archive(data, bytes(range(64)), bytes(24))
            a.root = root
            if n == 0 or name == "tensor":
                write("torch_archive", f"{name}-{root}", a.bytes())
    part = recipes.rebuild(recipes.old_storage(count=6, view=("1", 2, 4)), (2, 2))
    whole = recipes.rebuild(recipes.old_storage(count=6), (6,), rest=(), function="torch._utils._rebuild_tensor")
    write("torch_archive", "legacy", recipes.old_file({"part": part, "whole": whole, "object": [part, 7]}, {"0": bytes(range(24))}))
    zip64 = recipes.archive(recipes.dump(7, 2), bytes(8))
    zip64.end64 = {}
    write("zip_slice", "zip64", zip64.bytes())
    deflated = recipes.tensor_item(range(40), (40,))
    for record in deflated.records:
        recipes.deflate(record)
    write("zip_slice", "deflated", deflated.bytes())
    write("zip_slice", "made", recipes.tensor_item(range(4), (4,)).bytes())
    whole = safetensors({"a": ("F32", [2, 3], 24), "b": ("BF16", [4], 8), "c": ("F8_E4M3", [], 1), "d": ("I64", [0], 0)}, {"format": "pt"})
    shards = [safetensors({"w": ("F32", [2, 2], 16)}, {"DCP_SHARDING_INFO": '{"w":{"saved_offsets":[%d,0]}}' % at, "DCP_VERSION": "1.0"}) for at in (0, 2)]
    index = b'{\n  "metadata": {"total_size": 33},\n  "weight_map": {"a": "model.safetensors", "b": "model.safetensors", "c": "model.safetensors", "d": "model.safetensors"}\n}\n'
    write("safetensors_header", "whole", whole)
    write("safetensors_header", "shard", shards[0])
    write("safetensors_header", "empty", safetensors({}))
    write("hf_index", "one", index)
    write("hf_index", "escapes", b'{"weight_map":{"a\\u00e9\\ud83d\\ude00\\n":"x.safetensors"},"metadata":{"total_size":0,"more":[1,{"a":null}]}}')
    write("open_folder", "safetensors", folder_bytes({"model.safetensors": whole, "model.safetensors.index.json": index}))
    write("open_folder", "shards", folder_bytes({NAMES[6]: shards[0], NAMES[7]: shards[1]}))


if __name__ == "__main__":
    main()
