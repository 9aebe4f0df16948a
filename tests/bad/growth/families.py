"""Inputs that stand for more than their bytes, or make a reader look at one thing again and again. Each takes a number of bytes."""
import json
import pickle
import struct
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Callable

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from recipes import METADATA, Item, Op, Size, Tensor, archive, call, chunk, dump, glob, new, op, small  # noqa: E402

KIB = 1024
FAMILIES = []

LOOK = ("inspect ckpt", "inspect ckpt --json", "inspect ckpt --chunks")
DCP = (*LOOK, "inspect ckpt --keys", "inspect ckpt --html page.html", "verify ckpt", "consolidate ckpt out.pt --dry-run", "reshard ckpt out --world-size 3 --dry-run")
SHOWN = ("extract ckpt step", "extract ckpt step --json")
OTHERS = ("diff ckpt ckpt", "extract ckpt k", "edit ckpt edited --exclude '*x' --force", "inspect ckpt --stats '*'")
WRITTEN = ("consolidate ckpt out.pt -q --force --no-sync", "reshard ckpt out --world-size 2 -q --force --no-sync")


@dataclass
class Family:
    name: str
    first: int  # bytes of the smallest input
    commands: tuple
    make: Callable


def family(*commands, first=128 * KIB):
    """`function(folder, n)` writes an input of about n bytes."""
    return lambda function: FAMILIES.append(Family(function.__name__, first, commands, function)) or function


def dcp(*commands, first=128 * KIB):
    """`function(c, n)` changes a small checkpoint so that its metadata has about n bytes."""

    def made(function):
        def make(folder, n):
            c = small(folder / "ckpt")
            function(c, n)
            c.write()

        FAMILIES.append(Family(function.__name__, first, commands or DCP, make))
        return function

    return made


def put(value, slot):
    return Op(op(value) + pickle.LONG_BINPUT + struct.pack("<I", slot))


def get(slot):
    return Op(pickle.BINGET + bytes([slot]) if slot < 256 else pickle.LONG_BINGET + struct.pack("<I", slot))


def joined(*parts):
    return Op(b"".join(parts))


def items(container, parts, end):
    return joined(container, pickle.MARK, *parts, end)


def dict_of(pairs):
    return items(pickle.EMPTY_DICT, [op(k) + op(v) for k, v in pairs], pickle.SETITEMS)


def list_of(values):
    return items(pickle.EMPTY_LIST, map(op, values), pickle.APPENDS)


# ---- pickles that are no metadata


@dcp("inspect ckpt")
def closing_brackets(c, n):
    c.metadata = dump(Op(pickle.EMPTY_LIST * n))


@dcp("inspect ckpt")
def empty_dicts(c, n):
    c.metadata = dump(Op(pickle.EMPTY_DICT * n))


@dcp("inspect ckpt")
def empty_tuples(c, n):
    c.metadata = dump(Op(pickle.EMPTY_TUPLE * n))


@dcp("inspect ckpt")
def nones(c, n):
    c.metadata = dump(Op(pickle.NONE * n))


@dcp("inspect ckpt")
def copies_that_are_kept(c, n):
    c.metadata = dump(Op(pickle.NONE + (pickle.DUP + pickle.MEMOIZE) * (n // 2)))


@dcp("inspect ckpt")
def one_slot_read_again_and_again(c, n):
    c.metadata = dump(Op(put("x" * (n // 2), 0) + get(0) * (n // 4)))


@dcp("inspect ckpt")
def slots_that_are_put_backwards(c, n):
    c.metadata = dump(Op(pickle.NONE + b"".join(pickle.LONG_BINPUT + struct.pack("<I", s) + get(s) for s in reversed(range(n // 8)))))


@dcp("inspect ckpt")
def containers_of_containers(c, n):
    c.metadata = dump(Op(pickle.EMPTY_LIST * (n // 2) + pickle.APPEND * (n // 2 - 1)))


@dcp("inspect ckpt")
def marks(c, n):
    c.metadata = dump(Op((pickle.MARK + pickle.POP) * (n // 2)))


@dcp("inspect ckpt")
def calls(c, n):
    c.metadata = dump(Op(glob("os.system") + pickle.MEMOIZE + (get(0) + pickle.EMPTY_TUPLE + pickle.REDUCE) * (n // 4)))


# ---- names


@dcp(*DCP, *OTHERS, first=48 * KIB)
def a_path_of_many_steps(c, n):
    c.paths = {"model.w": joined(pickle.MARK, put("a", 1), get(1) * (n // 2), pickle.TUPLE)}


@dcp(first=48 * KIB)
def paths_of_a_thousand_steps(c, n):
    count = n // 2 // 1000
    keys = [f"k{i}" for i in range(count)]
    c.tensors = {k: Tensor((0,), []) for k in keys}
    c.paths = {k: joined(pickle.MARK, put(k, i + 1), get(i + 1) * (1000 if i < 256 else 400), pickle.TUPLE) for i, k in enumerate(keys)}


@dcp()
def a_long_key(c, n):
    key = "x" * (n // 2)
    c.tensors[key] = Tensor((1,), [((0,), (1,))])
    c.paths[key] = (key,)


@dcp(*DCP, "consolidate ckpt out.pt --clean-fqns --dry-run", "consolidate ckpt out.pt --model-only --dry-run")
def a_component_of_wrappers(c, n):
    key = "module." * (n // 28) + "w"
    c.tensors[key] = c.tensors["model.w"]
    c.paths[key] = (key,)


@dcp(*DCP, "consolidate ckpt out.pt --clean-fqns --dry-run")
def a_component_of_other_wrappers(c, n):
    key = "a._orig_mod." * (n // 100) + "_fsdp_wrapped_module._orig_mod." * (n // 200) + "w"
    c.tensors[key] = c.tensors["model.w"]
    c.paths[key] = (key,)


@dcp(*DCP, "consolidate ckpt out.pt --root a.a.a.a --dry-run", "consolidate ckpt out.pt --add-root a --dry-run")
def a_key_of_many_components(c, n):
    key = "a." * (n // 8) + "w"
    c.tensors = {key: c.tensors["model.w"]}
    c.paths = {key: tuple(key.split("."))}


@dcp()
def a_name_that_many_paths_share(c, n):
    count = n // 60
    keys = [f"k{i}" for i in range(count)]
    c.tensors = {k: Tensor((0,), []) for k in keys}
    c.paths = {k: (put("x" * (n // 4), 1) if i == 0 else get(1), k) for i, k in enumerate(keys)}


@dcp(*LOOK, "consolidate ckpt out.pt --model-only --dry-run")
def a_key_of_states(c, n):
    key = "z." + "state." * (n // 12) + "w.x"
    c.tensors[key] = c.tensors["model.w"]
    c.paths = None


@dcp(*LOOK, "consolidate ckpt out.pt --model-only --dry-run")
def states_of_many_parameters(c, n):
    keys = [f"{what}{i}.w{end}" for i in range(n // 400) for what, end in (("net.", ""), ("z.state.", ".x"))]
    c.tensors = {k: Tensor((0,), []) for k in keys}
    c.paths = None


@dcp(*LOOK, "consolidate ckpt out.pt --model-only --dry-run")
def dicts_that_repeat_names(c, n):
    """Under as many optimizers as there are parameters, one inside the other."""
    names = [f"w{i}" for i in range(n // 1600)]
    c.paths = {f"net.{w}": ("net", w) for w in names}
    for i, w in enumerate(names):
        c.paths |= {f"{'a.' * (i % 50)}adam{i}.{slot}.{w}": (*["a"] * (i % 50), f"adam{i}", slot, w) for slot in "mv"}
    c.tensors = {k: Tensor((2,), [((0,), (2,))]) for k in c.paths}
    c.items, c.blobs = [], []


@dcp(*LOOK, "consolidate ckpt out.pt --model-only --dry-run")
def dicts_called_like_parameters(c, n):
    count = n // 60
    keys = [f"k{i}" for i in range(count)]
    c.tensors = {k: Tensor((0,), []) for k in keys}
    name = "x." * (n // 8)
    c.paths = {k: (k, put(name, 1) if i == 0 else get(1), *(["s"] if i % 2 else [])) for i, k in enumerate(keys)}


SHARED = Op(pickle.EMPTY_LIST)


def keyed(c, key, value, more=()):
    """state_dict_metadata with one more tensor, of these opcodes."""
    pairs = [(k, t.op()) for k, t in c.tensors.items()] + [(key, value), *more]
    c.fields["state_dict_metadata"] = dict_of(pairs)
    c.fields["storage_data"] = dict_of(c.files()[1])


@dcp()
def chunks_without_items_of_a_long_key(c, n):
    chunks = items(pickle.EMPTY_LIST, [put(chunk(Size((0,)), Size((1,))), 9), get(9) * (n // 4)], pickle.APPENDS)
    keyed(c, "x" * (n // 2), Tensor((1,), [], fields={"chunks": chunks}).op())


@dcp()
def one_chunk_of_many_dims_again_and_again(c, n):
    most = (1 << 31) - 1
    chunks = items(pickle.EMPTY_LIST, [put(chunk(Size((most,) * 32), Size((0,) * 32)), 9), get(9) * (n // 2)], pickle.APPENDS)
    keyed(c, "t", Tensor((0,) * 32, [], fields={"chunks": chunks}).op())


@dcp()
def one_tensor_under_many_keys(c, n):
    tensor = Tensor((n,), [((i,), (1,)) for i in range(n // 400)]).op()
    keyed(c, "t", put(tensor, 9), [(f"k{i}", get(9)) for i in range(n // 30)])


@dcp()
def one_empty_tensor_under_many_keys(c, n):
    keyed(c, "t", put(Tensor((0,) * 60, []).op(), 9), [(f"k{i}", get(9)) for i in range(n // 20)])


@dcp()
def a_dtype_with_a_long_name(c, n):
    keyed(c, "t", put(Tensor((0,), [], dtype="torch." + "x" * (n // 2)).op(), 9), [(f"k{i}", get(9)) for i in range(n // 30)])


@dcp()
def dtypes_of_many_names(c, n):
    c.tensors = {f"k{i}": Tensor((0,), [], dtype=f"torch.x{i}") for i in range(n // 800)}


@dcp()
def items_of_no_chunk_with_a_long_key(c, n):
    key = put("x" * (n // 2), 9)
    entries = [(new(METADATA + "MetadataIndex", {"fqn": key if i == 0 else get(9)}), c.items[0].op(0, 1)[1]) for i in range(n // 800)]
    c.fields["storage_data"] = dict_of(entries)


@dcp()
def items_of_many_files(c, n):
    entries = [Item(f"k{i}", (0,), f"f{i}.distcp", b"").op(0, 1) for i in range(n // 400)]
    c.fields["storage_data"] = dict_of(entries)


@dcp()
def items_in_files_with_a_long_name(c, n):
    name = put("f" * 4000, 9)
    entries = [Item(f"k{i}", (0,), "", b"", fields={"relative_path": name if i == 0 else get(9)}).op(0, 1) for i in range(n // 400)]
    c.fields["storage_data"] = dict_of(entries)
    c.tensors = {f"k{i}": Tensor((1,), [((0,), (1,))]) for i in range(n // 800)}
    c.blobs, c.paths = [], None


@dcp()
def transforms_of_many_names(c, n):
    for i in range(n // 1000):
        c.items.append(Item("model.w", (0, 0), "__0_0.distcp", b"", fields={"transform_descriptors": [f"t{i}", "x" * 300]}))


@dcp()
def long_transforms_of_many_items(c, n):
    shared = put(list_of(["x" * (n // 2)]), 9)
    count = n // 1500
    c.tensors |= {f"k{i}": Tensor((1,), [((0,), (1,))]) for i in range(count)}
    c.paths = None
    c.items += [Item(f"k{i}", (0,), "__0_0.distcp", b"", fields={"transform_descriptors": shared if i == 0 else get(9)}) for i in range(count)]


# ---- chunks


@dcp()
def chunks_at_one_place(c, n):
    """All empty, and the items name no number: each has to be looked for."""
    chunks = items(pickle.EMPTY_LIST, [put(chunk(Size((0,)), Size((0,))), 9), get(9) * (n // 8)], pickle.APPENDS)
    c.items = [Item("t", (0,), "__0_0.distcp", b"") for _ in range(n // 600)]
    keyed(c, "t", Tensor((1,), [], fields={"chunks": chunks}).op())


@dcp()
def chunks_out_of_order(c, n):
    count = n // 800
    c.tensors["t"] = Tensor((count,), [((i,), (1,)) for i in reversed(range(count))])
    c.items += [Item("t", (i,), "__0_0.distcp", b"", index={"index": count}) for i in range(count)]


@dcp()
def chunks_that_overlap(c, n):
    count = n // 400
    c.tensors["t"] = Tensor((count, count), [((i % 7, i), (count - 7, 1 + i % 3)) for i in range(count - 3)])


@dcp()
def chunks_beyond_the_file(c, n):
    count = n // 800
    c.tensors["t"] = Tensor((count,), [((i,), (1,)) for i in range(count)])
    c.items += [Item("t", (i,), "__0_0.distcp", b"", fields={"offset": 1 << 40, "length": 9}) for i in range(count)]


@dcp()
def items_that_overlap(c, n):
    count = n // 800
    c.tensors["t"] = Tensor((count,), [((i,), (1,)) for i in range(count)])
    c.items += [Item("t", (i,), "__0_0.distcp", b"", fields={"offset": 0, "length": 600}) for i in range(count)]


@dcp(*DCP, *WRITTEN, *SHOWN, "diff ckpt ckpt")
def keys_that_share_one_item(c, n):
    count = n // 1000
    c.blobs += [f"k{i}" for i in range(count)]
    c.paths = None
    c.item("step").data = archive(dump(Op(list_of(range(n // 20))), 2))
    length = len(c.item("step").data.bytes())
    at = sum(len(i.data.bytes()) for i in c.items[:2])
    c.items += [Item(f"k{i}", None, "__0_0.distcp", b"", fields={"offset": at, "length": length}) for i in range(count)]


@dcp()
def objects_of_many_kinds_of_ranks(c, n):
    count = n // 600
    c.blobs += [f"k{i}_rank_0" for i in range(count)]
    c.paths = None
    c.items += [Item(f"k{i}_rank_0", None, "__0_0.distcp", archive(dump(i, 2)) if i < 9 else b"x" * 600) for i in range(count)]


@dcp("reshard ckpt out --layout layout.json --dry-run", "reshard ckpt out --world-size 2 --dry-run", first=64 * KIB)
def a_rule_for_each_tensor(c, n):
    count = n // 1000
    c.tensors |= {f"k{i}": Tensor((0,), [((0,), (0,))]) for i in range(count)}
    c.paths = None
    c.folder.parent.joinpath("layout.json").write_text(json.dumps({"world_size": 2, "placements": {f"k{i}": ["shard(0)"] for i in range(n // 24)}}))


@dcp(*DCP, *WRITTEN)
def tensors_that_share_one_item(c, n):
    count = n // 1500
    length = len(c.item("model.b").data.bytes())
    at = len(c.items[0].data.bytes())
    c.paths = None
    c.tensors |= {f"k{i}": Tensor((2,), [((0,), (2,))]) for i in range(count)}
    c.items += [Item(f"k{i}", (0,), "__0_0.distcp", b"", fields={"offset": at, "length": length}) for i in range(count)]


# ---- what else a metadata holds


@dcp()
def attributes_that_share(c, n):
    c.fields |= {f"a{i}": put(list_of(range(n // 10)), 9) if i == 0 else get(9) for i in range(200)}


@dcp()
def an_attribute_of_many_entries(c, n):
    c.fields["mcore_data"] = dict_of((f"k{i}", {"nd_reformulated_orig_global_shape": (1, 2)}) for i in range(n // 80))


@dcp()
def globals_of_many_packages(c, n):
    c.fields["x"] = list_of(call(f"p{i}.C") for i in range(n // 16))

