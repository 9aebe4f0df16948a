"""The families of single files, safetensors folders and metadata of single ranks; those of `.metadata` are in families.py."""
import json
import pickle
import struct

from families import KIB, FAMILIES, Family, family, put, get, items, dict_of, list_of
from recipes import Archive, Op, Tensor, archive, call, dump, old_file, old_storage, op, rebuild, small, storage

FILE = ("inspect m.pt", "inspect m.pt --json", "verify m.pt", "consolidate m.pt out.pt -q --force --no-sync", "convert m.pt out -q --force --no-sync")
TENSORS = ("inspect m.safetensors", "inspect m.safetensors --json", "verify m.safetensors", "consolidate m.safetensors out.pt --dry-run")
INDEX = ("inspect hf", "inspect hf --json", "verify hf")


# ---- torch.save files


def torch_file(*commands, first=128 * KIB):
    def made(function):
        def make(folder, n):
            data = function(n)
            if type(data) is not bytes:
                data = (data if isinstance(data, Archive) else archive(dump(data, 2))).bytes()
            (folder / "m.pt").write_bytes(data)

        FAMILIES.append(Family(function.__name__, first, commands or FILE, make))
        return function

    return made


@torch_file()
def a_state_dict_of_lists(n):
    return {"w": Op(pickle.EMPTY_LIST + pickle.MARK + pickle.EMPTY_LIST * n + pickle.APPENDS)}


@torch_file()
def a_state_dict_of_numbers(n):
    return dict_of((f"k{i}", i) for i in range(n // 16))


@torch_file()
def a_state_dict_with_a_long_key(n):
    return {"x" * n: 1}


@torch_file()
def empty_dicts_under_a_long_key(n):
    return {"x" * (n // 2): dict_of((i, {}) for i in range(n // 16))}


@torch_file()
def keys_that_are_one_tuple(n):
    return Op(items(pickle.EMPTY_DICT, [put(("x" * (n // 2),), 0) + op(1), (get(0) + op(1)) * (n // 16)], pickle.SETITEMS))


@torch_file()
def values_that_are_one_list(n):
    return Op(items(pickle.EMPTY_DICT, [op("k") + put(list_of(range(n // 10)), 0), *(op(f"k{i}") + get(0) for i in range(n // 30))], pickle.SETITEMS))


@torch_file()
def tensors_that_share_one_storage(n):
    stored = put(storage(count=2), 0)
    rebuilt = [call("torch._utils._rebuild_tensor_v2", stored if i == 0 else get(0), 0, (2,), (1,), False, call("collections.OrderedDict")) for i in range(n // 120)]
    return archive(dump(dict_of((f"k{i}", t) for i, t in enumerate(rebuilt)), 2), bytes(8))


@torch_file()
def objects_with_a_storage_each(n):
    count = n // 300
    return archive(dump(dict_of((f"k{i}", (storage(key=str(i), count=1),)) for i in range(count)), 2), *[b"four"] * count)


@torch_file()
def storages_that_nothing_names(n):
    return archive(dump({"k": 1}, 2), *[b"four"] * (n // 250))


@torch_file()
def storages_of_the_old_form(n):
    count = n // 200
    return old_file(dict_of((f"k{i}", rebuild(old_storage(key=str(i), count=1), (1,))) for i in range(count)), {str(i): b"four" for i in range(count)})


@torch_file()
def parts_of_a_storage_of_the_old_form(n):
    parts = (rebuild(old_storage(count=8, view=(f"p{i}", i % 8, 1)), (1,)) for i in range(n // 250))
    return old_file(dict_of((f"k{i}", part) for i, part in enumerate(parts)), {"0": bytes(32)})


@torch_file()
def objects_that_name_a_long_key_of_the_old_form(n):
    stored = put(("storage", Op(b"ctorch\nFloatStorage\n"), "x" * 64, "cpu", 2, None), 0) + pickle.BINPERSID
    return old_file({"w": list_of([Op(stored), *[Op(get(0) + pickle.BINPERSID)] * (n // 3)])}, {"x" * 64: bytes(8)})


@torch_file()
def a_text_that_goes_on_in_the_old_form(n):
    return old_file({"w": 1, "text": "x" * n})[: n // 2]


@torch_file()
def containers_inside_containers(n):
    return {"w": Op(op(1) + pickle.TUPLE1 * n)}


# ---- safetensors


def header_file(folder, members, payload=b"", name="m.safetensors"):
    text = json.dumps(members, separators=(",", ":")).encode()
    (folder / name).write_bytes(struct.pack("<Q", len(text)) + text + payload)


def entry(begin=0, end=0, shape=(0,), dtype="F32"):
    return {"dtype": dtype, "shape": list(shape), "data_offsets": [begin, end]}


@family(*TENSORS)
def a_header_of_many_tensors(folder, n):
    header_file(folder, {f"k{i}": entry() for i in range(n // 60)})


@family(*TENSORS)
def a_header_of_many_dims(folder, n):
    header_file(folder, {f"k{i}": entry(shape=(0,) * 60) for i in range(n // 180)})


@family(*TENSORS)
def a_header_of_long_names(folder, n):
    header_file(folder, {"module." * (n // 70) + str(i): entry() for i in range(10)})


@family(*TENSORS)
def a_header_of_much_metadata(folder, n):
    header_file(folder, {"__metadata__": {f"k{i}": "v" for i in range(n // 12)}, "t": entry()})


@family(*TENSORS)
def a_header_of_members_that_nobody_knows(folder, n):
    header_file(folder, {"t": {**entry(), "x": [[0]] * (n // 4)}})


@family(*TENSORS)
def a_header_of_brackets(folder, n):
    text = b'{"t":' + b"[" * n
    (folder / "m.safetensors").write_bytes(struct.pack("<Q", len(text)) + text)


@family(*INDEX)
def an_index_of_files_that_are_missing(folder, n):
    (folder / "hf").mkdir()
    header_file(folder / "hf", {"k0": entry()}, name="a.safetensors")
    names = {"k0": "a.safetensors", **{f"k{i}": f"f{i}.safetensors" for i in range(1, n // 30)}}
    (folder / "hf" / "model.safetensors.index.json").write_text(json.dumps({"metadata": {}, "weight_map": names}))


@family(*INDEX)
def an_index_of_one_file(folder, n):
    (folder / "hf").mkdir()
    header_file(folder / "hf", {f"k{i}": entry() for i in range(n // 100)}, name="a.safetensors")
    names = {f"k{i}": "a.safetensors" for i in range(n // 60)}
    (folder / "hf" / "model.safetensors.index.json").write_text(json.dumps({"metadata": {}, "weight_map": names}))


@family(*INDEX, first=64 * KIB)
def many_files_with_one_tensor(folder, n):
    (folder / "hf").mkdir()
    for i in range(n // 300):
        header_file(folder / "hf", {"k": entry(), f"k{i}": entry()}, name=f"f{i:05}.safetensors")
    names = {"k": "f00000.safetensors", **{f"k{i}": f"f{i:05}.safetensors" for i in range(n // 300)}}
    (folder / "hf" / "model.safetensors.index.json").write_text(json.dumps({"metadata": {}, "weight_map": names}))


# ---- metadata of single ranks


@family("inspect ckpt", "inspect ckpt --json", "verify ckpt")
def attributes_of_many_ranks(folder, n):
    for rank in range(8):
        c = small(folder / "ckpt" if rank == 0 else folder / f"r{rank}")
        c.fields["mcore_data"] = dict_of((f"k{i}", {}) for i in range(n // 8 // 12))
        c.write()
        (c.folder / ".metadata").rename(folder / "ckpt" / f"__{rank}.metadata")


@family("inspect ckpt", "inspect ckpt --json", "verify ckpt")
def the_same_chunks_on_every_rank(folder, n):
    ranks = 16
    for rank in range(ranks):
        c = small(folder / "ckpt" if rank == 0 else folder / f"r{rank}")
        count = n // ranks // 300
        c.tensors["t"] = Tensor((count,), [((i,), (1,)) for i in range(count)])
        c.write()
        (c.folder / ".metadata").rename(folder / "ckpt" / f"__{rank}.metadata")
