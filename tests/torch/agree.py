"""Whether torch and dcpctl agree on what can be loaded, and on what loading would run.

    agree.py DCPCTL unsafe|items|metadata|forms|opaque...
"""
import collections
import copyreg
import io
import json
import os
import pickle
import shutil
import sys
import zipfile

from case import Case, check, compare, dcp, describe, finish, loaded, same, torch

import cases
from torch.distributed.checkpoint.filesystem import SerializationFormat
from torch.distributed.checkpoint.state_dict_loader import _load_state_dict_from_keys
from torch.distributed.checkpoint.state_dict_saver import _save_state_dict


class Runs:
    """Pickled as a call."""

    def __init__(self, function, *arguments):
        self.call = function, arguments

    def __reduce__(self):
        return self.call


def saved(value, **options):
    buffer = io.BytesIO()
    torch.save(value, buffer, **options)
    return buffer.getvalue()


def save(folder, state, **options):
    shutil.rmtree(folder, ignore_errors=True)
    _save_state_dict(dict(state), dcp.FileSystemWriter(folder, **options), no_dist=True, planner=dcp.DefaultSavePlanner())


def metadata_of(folder):
    return pickle.loads((folder / ".metadata").read_bytes())


def put_item(folder, key, item):
    """Another item in the place of a key's."""
    metadata = metadata_of(folder)
    (info,) = [info for index, info in metadata.storage_data.items() if index.fqn == key]
    with open(folder / info.relative_path, "ab") as f:
        info.offset, info.length = f.tell(), len(item)
        f.write(item)
    (folder / ".metadata").write_bytes(pickle.dumps(metadata))


def item_of(opcodes):
    """An item with this pickle."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, data in {"data.pkl": opcodes, "byteorder": b"little", "version": b"3\n"}.items():
            archive.writestr("archive/" + name, data)
    return buffer.getvalue()


def refuses(item):
    try:
        torch.load(io.BytesIO(item), weights_only=True)
    except pickle.UnpicklingError:
        return True
    return False


def answer(case, command, path, exit_code, *options):
    return json.loads(case.run(command, path, "--json", *options, exit_code=exit_code).stdout)


def unsafe(case):
    """What torch.load(weights_only=True) refuses is named with its key, in both commands, whatever the object is kept in."""
    objects = dict(cases.odd_objects()) | {"call": Runs(os.system, "true"), "method": Runs(getattr, 1, "real"), "number": 7, "default": collections.defaultdict(list, a=[1])}
    refused = sorted(key for key, value in objects.items() if refuses(saved(value)))
    check("call" in refused and "number" not in refused, f"refused: {refused}")
    save(case.out / "dcp", {"objects." + key: Leaf(value) for key, value in objects.items()})
    for key, value in objects.items():
        put_item(case.out / "dcp", "objects." + key, saved(value))
    for command in ["inspect", "verify"]:
        said = answer(case, command, case.out / "dcp", 0)
        same(sorted(u["object"] for u in said["unsafe"]), ["objects." + key for key in refused], f"{command}: what is unsafe")
        (call,) = [u["globals"] for u in said["unsafe"] if u["object"] == "objects.call"]
        same(call, ["posix.system"], f"{command}: the globals of a call")
        answer(case, command, case.out / "dcp", 1, "--fail-on", "unsafe")
    # A pickle of protocol 4 takes its names from the stack.
    put_item(case.out / "dcp", "objects.number", saved(objects["call"], pickle_protocol=4))
    said = answer(case, "verify", case.out / "dcp", 1, "--fail-on", "unsafe")
    check(["posix.system"] in [u["globals"] for u in said["unsafe"] if u["object"] == "objects.number"], "a call of protocol 4 is not named")

    torch.save({"objects": {key: (value,) for key, value in objects.items()}}, case.out / "all.pt")
    for command in ["inspect", "verify"]:
        said = answer(case, command, case.out / "all.pt", 1, "--fail-on", "unsafe")
        same(sorted(u["object"] for u in said["unsafe"]), ["objects." + key for key in refused], f"{command}: what is unsafe in a .pt")
    save(case.out / "safe", {"number": 7, "text": "a", "ordered": torch.ones(2)})
    torch.save({"number": 7, "w": torch.ones(2)}, case.out / "safe.pt")
    for command in ["inspect", "verify"]:
        for path in ["safe", "safe.pt"]:
            same(answer(case, command, case.out / path, 0, "--fail-on", "unsafe,damage,warnings")["unsafe"], [], f"{command}: {path}")

    # Opcodes that torch refuses and Python runs: what they would run is not read, and that is said.
    for name, opcodes in {"INST": b"(ios\nsystem\n.", "OBJ": b"(cos\nsystem\no.", "PERSID": b"Pid\n.", "LONG": b"L%d\n." % (1 << 100)}.items():
        check(refuses(item_of(opcodes)), f"torch takes {name}")
        put_item(case.out / "safe", "number", item_of(opcodes))
        said = [(f["object"], f["id"]) for f in answer(case, "inspect", case.out / "safe", 0)["findings"]]
        same(said, [("number", "pickle_refused_opcode")], f"inspect: {name}")
        for command in ["inspect", "verify"]:
            answer(case, command, case.out / "safe", 1, "--fail-on", "unsafe")
    # As protocol 2 writes it, an integer may have any number of bits.
    put_item(case.out / "safe", "number", saved(-1 << 100))
    for command in ["inspect", "verify"]:
        same(answer(case, command, case.out / "safe", 0, "--fail-on", "unsafe,damage,warnings")["findings"], [], f"{command}: a large integer")

    # The metadata is a pickle, too.
    metadata = metadata_of(case.out / "safe")
    metadata.note = Runs(os.system, "true")
    (case.out / "safe" / ".metadata").write_bytes(pickle.dumps(metadata))
    for command in ["inspect", "verify"]:
        said = answer(case, command, case.out / "safe", 1, "--fail-on", "unsafe")
        same([u["globals"] for u in said["unsafe"]], [["posix.system"]], f"{command}: the metadata")


class Leaf:
    """Anything as one byte item: torch's planner keeps what it does not know whole."""

    def __init__(self, value):
        self.value = 0


class Doubled(torch.Tensor):
    """A wrapper with a tensor inside."""

    @staticmethod
    def __new__(cls, inner):
        return torch.Tensor._make_wrapper_subclass(cls, inner.shape, dtype=inner.dtype)

    def __init__(self, inner):
        self.inner = inner

    @classmethod
    def __torch_dispatch__(cls, function, types, arguments=(), keywords=None):
        taken = [a.inner if isinstance(a, Doubled) else a for a in arguments]
        result = function(*taken, **(keywords or {}))
        return Doubled(result) if isinstance(result, torch.Tensor) else result


def odd_tensors():
    """Tensors that are not plain, by what they are."""
    tagged = torch.ones(2)
    tagged.note = "a"
    values = torch.tensor([1.0, 2.0])
    return {
        "quantized": torch.quantize_per_tensor(torch.ones(2, 3), 0.5, 3, torch.qint8),
        "subclass": Doubled(torch.arange(6.0).reshape(2, 3)),
        "tagged": tagged,
        "sparse": torch.sparse_coo_tensor(torch.tensor([[0, 1], [1, 0]]), values, (2, 3)),
        "csr": torch.eye(3).to_sparse_csr(),
        "meta": torch.empty(3, 4, device="meta"),
        "nested": torch.nested.nested_tensor([torch.ones(2), torch.ones(3)]),
        "jagged": torch.nested.nested_tensor([torch.ones(2), torch.ones(3)], layout=torch.jagged),
    }


def items(case):
    """What stands in a tensor's place: what torch reads is taken, what it refuses is damage, and no writer copies it."""
    torch.serialization.add_safe_globals([Doubled])
    plain = torch.arange(6.0).reshape(2, 3)
    state = {"w": plain, "n": 1}
    taken = {name: t for name, t in odd_tensors().items() if name not in ("nested", "jagged")} | {"parameter": torch.nn.Parameter(plain)}
    for name, tensor in taken.items():
        save(case.out / "dcp", {"w": torch.empty(tensor.shape), "n": 1})
        item = saved(tensor)
        put_item(case.out / "dcp", "w", item)
        check(isinstance(torch.load(io.BytesIO(item), weights_only=True), torch.Tensor), f"torch refuses {name}")
        said = answer(case, "verify", case.out / "dcp", 0, "--quick")
        same([f["id"] for f in said["findings"]], ["pickle_unsafe"] if name == "subclass" else [], f"{name}: findings")
    hooked = torch.ones(2, 3)
    refused = {
        "call": Runs(os.system, "true"),
        "object": cases,
        "call in a tensor": Runs(torch._utils._rebuild_tensor_v2, plain._typed_storage(), 0, (2, 3), (3, 1), False, Runs(os.system, "true")),
        "class": torch.Tensor,
        "number": 5,
        "state dict": {"w": hooked},
        "device": torch.device("cpu"),
    }
    refused["object"] = Runs(copyreg._reconstructor, Case, object, None)
    for name, value in refused.items():
        save(case.out / "dcp", state)
        item = saved(value)
        try:
            is_tensor = isinstance(torch.load(io.BytesIO(item), weights_only=True), torch.Tensor)
        except pickle.UnpicklingError:
            is_tensor = False
        check(not is_tensor, f"torch takes {name} for a tensor")
        put_item(case.out / "dcp", "w", item)
        said = answer(case, "verify", case.out / "dcp", 1)
        check({f["id"] for f in said["findings"]} & {"item_not_tensor", "item_refused"}, f"{name}: {said['findings']}")
        same([f["tensor"] for f in said["findings"]], ["w"], f"{name}: keys")
        answer(case, "inspect", case.out / "dcp", 1, "--fail-on", "unsafe")
        for out in ["out.pt", "out.safetensors", "out"]:
            command = "reshard" if out == "out" else "consolidate"
            case.run(command, case.out / "dcp", case.out / out, *(["--world-size", "2"] if out == "out" else []), exit_code=3)
            check(not (case.out / out).exists(), f"{name}: {out} is written")


def opaque(case):
    """Weights of a .pt that an output cannot hold are an error; a .pt holds all."""
    torch.serialization.add_safe_globals([Doubled])
    for name, tensor in odd_tensors().items():
        parameter = name in ("subclass", "meta")
        state = {"layer": {"weight": torch.nn.Parameter(tensor) if parameter else tensor, "bias": torch.ones(3)}}
        torch.save(state, case.out / "in.pt")
        case.checkpoint = case.out / "in.pt"
        said = answer(case, "inspect", case.out / "in.pt", 0)
        same([t["key"] for t in said["tensors"]], ["layer.bias", "layer.weight"], f"{name}: tensors")
        if name == "tagged":
            continue  # a plain tensor with an attribute
        if name not in ("nested", "jagged"):
            same(said["tensors"][1]["shape"], list(tensor.shape), f"{name}: shape")
        result = case.run("consolidate", case.out / "in.pt", case.out / "out.safetensors", exit_code=3)
        check("layer.weight" in result.stderr, f"{name}: not named in {result.stderr}")
        result = case.run("convert", case.out / "in.pt", case.out / "out", "--world-size", "2", exit_code=0 if name in ("quantized", "subclass") else 3)
        shutil.rmtree(case.out / "out", ignore_errors=True)
        out, _, _ = case.consolidate(f"{name}.pt")
        got = torch.load(out, weights_only=False)["layer"]["weight"]
        check(type(got) in (type(tensor), torch.nn.Parameter) and got.layout == tensor.layout and got.device == tensor.device, f"{name}: {type(got)}")
        if name == "subclass":
            same(got.inner.tolist(), tensor.inner.tolist(), name)
        elif name == "nested" or name == "jagged":
            same([t.tolist() for t in got.unbind()], [t.tolist() for t in tensor.unbind()], name)
        elif name != "meta":
            same(got.to_dense().dequantize().tolist(), tensor.to_dense().dequantize().tolist(), name)
        out, _, _ = case.consolidate(f"{name}.safetensors", "--exclude", "layer.weight")


def metadata(case):
    """Metadata that pickle.load refuses is damage, and loads in no torch; what it takes is none."""
    save(case.out / "good", {"a": torch.ones(4, 2), "b": {"c": torch.ones(3, dtype=torch.int64), "n": 5}})
    good = (case.out / "good" / ".metadata").read_bytes()

    def text(old, new):
        check(good.count(old) > 0 and len(old) == len(new), f"{old} is not there")
        return good.replace(old, new)

    def pickled(change):
        value = pickle.loads(good)
        change(value)
        return pickle.dumps(value)

    def properties(state):
        class Properties:
            def __reduce__(self):
                return copyreg._reconstructor, (torch.distributed.checkpoint.metadata.TensorProperties, object, None), state

        return lambda value: setattr(value.state_dict_metadata["a"], "properties", Properties())

    a = pickle.loads(good).state_dict_metadata["a"].properties.__getstate__()
    changed = {
        "as it was": good,
        "a key": text(b"\x03b.c", b"\x03b\xff\xfe"),
        "a key cut": text(b"\x03b.c", b"\x03b.\xe2"),
        "a surrogate as Python writes it": pickled(lambda v: v.planner_data.update({"\udc80": ("\udc80",)})),
        "a file's name": text(b"__0_0.distcp", b"__0_0.dist\xffp"),
        "a dtype": text(b"float32", b"floot32"),
        "a layout": text(b"torch.strided", b"torch.strodod"),
        "another layout": pickled(properties((a[0], torch.sparse_coo, *a[2:]))),
        "a class": text(b"ChunkStorageMetadata", b"ChonkStorageMetadata"),
        "another class of the module": text(b"StorageMeta", b"StoragoMeta"),
        "five fields": pickled(properties(a[:5])),
        "four fields": pickled(properties(a[:4])),
        "seven fields": pickled(properties((*a[:5], None, 0))),
        "no fields": pickled(properties(())),
        "a dict of fields": pickled(properties(dict(enumerate(a)))),
        "another memory format": pickled(properties((*a[:3], 0, *a[4:]))),
        "a memory format that is none": pickled(properties((*a[:3], Runs(type(a[3]), 7), *a[4:]))),
        "sizes that are none": pickled(lambda v: setattr(v.state_dict_metadata["a"], "size", Runs(torch.Size, ("x",)))),
        "no planner data": pickled(lambda v: setattr(v, "planner_data", None)),
        "another attribute": pickled(lambda v: setattr(v, "more", {"x": 1})),
        "cut": good[:-20],
        "protocol 6": b"\x80\x06" + good[2:],
    }
    for name, pickle_bytes in changed.items():
        try:
            pickle.loads(pickle_bytes)
            loads = True
        except Exception:
            loads = False
        shutil.rmtree(case.out / "changed", ignore_errors=True)
        shutil.copytree(case.out / "good", case.out / "changed")
        (case.out / "changed" / ".metadata").write_bytes(pickle_bytes)
        import subprocess

        ran = subprocess.run([case.dcpctl, "verify", "--json", case.out / "changed"], capture_output=True)
        if loads and name not in ("a file's name", "another layout"):
            same(ran.returncode, 0, f"{name}: verify, and torch loads it")
        elif not loads:
            check(ran.returncode in (1, 3), f"{name}: verify exits with {ran.returncode}, and torch does not load it: {ran.stdout}")
        if not loads and ran.returncode == 1:
            check("pickle_unloadable" in ran.stdout.decode(), f"{name}: {ran.stdout}")
            # The changed byte may be of a file's name: then that file is missing, which is an answer, too.
            missing = b"a data file of the checkpoint is missing" in ran.stdout
            same(answer(case, "inspect", case.out / "changed", int(missing))["loads_in"]["torch"], "none", f"{name}: loads in")


def forms(case):
    """Forms of a checkpoint that torch reads though its own writer makes them in other ways."""
    import zstandard  # noqa: F401
    from torch.distributed.checkpoint._extension import ZStandard

    state = {"model": {"w": torch.arange(24.0).reshape(4, 6), "b": torch.ones(3, dtype=torch.bfloat16), "empty": torch.ones(0, 2)}, "step": 7, "name": "ä\\n'", "flag": True, "rate": 0.5}
    save(case.out / "base", state)

    def holds(folder, what):
        case.checkpoint = folder
        compare(torch.load(case.consolidate("holds.pt")[0]), _load_state_dict_from_keys(checkpoint_id=folder), what)
        (case.out / "holds.pt").unlink()

    base = metadata_of(case.out / "base")
    ordered = metadata_of(case.out / "base")
    for name in ["state_dict_metadata", "planner_data", "storage_data"]:
        setattr(ordered, name, collections.OrderedDict(getattr(ordered, name)))
    default = metadata_of(case.out / "base")
    default.state_dict_metadata = collections.defaultdict(list, default.state_dict_metadata)
    for name, value in {"base": base, "ordered": ordered, "defaultdict": default}.items():
        for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
            (case.out / "base" / ".metadata").write_bytes(pickle.dumps(value, protocol))
            holds(case.out / "base", f"{name} in protocol {protocol}")
            case.run("verify", case.out / "base", "--strict")

    for layers in [1, 2, 3]:
        save(case.out / "zstd", state, _extensions=[ZStandard() for _ in range(layers)])
        holds(case.out / "zstd", f"{layers} times zstd")
        case.run("verify", case.out / "zstd", "--strict")

    # No torch reads the tensors of a folder of this kind, which its writer makes all the same; objects it does.
    tensors = {key: t for key, t in state["model"].items()}
    for extra in [{}, {"step": 7}, {"step": 7, "text": "a" * 5000}]:
        save(case.out / "safe", tensors | extra, serialization_format=SerializationFormat.SAFETENSORS)
        try:
            loaded(case.out / "safe")
            check(False, "torch loads safetensors items")
        except dcp.api.CheckpointException:  # no Exception of Python's
            pass
        case.checkpoint = case.out / "safe"
        compare(torch.load(case.consolidate(f"safe{len(extra)}.pt")[0]), tensors | extra, f"safetensors items and {sorted(extra)}")
        said = answer(case, "verify", case.out / "safe", 0)
        check("damage" not in [f["severity"] for f in said["findings"]], said["findings"])
        said = answer(case, "inspect", case.out / "safe", 0)
        same(said["loads_in"]["torch"], "none", "safetensors items: loads in")
        same([f["unreferenced_bytes"] for f in said["files"]], [0], "safetensors items: unreferenced bytes")

    # What is made of a safetensors file is a flat state dict with planner data.
    from safetensors.torch import save_file

    flat = {"a.b.weight": torch.ones(3, 2), "c": torch.arange(5)}
    save_file(flat, case.out / "flat.safetensors")
    for options in [[], ["--add-root", "model"]]:
        shutil.rmtree(case.out / "flat", ignore_errors=True)
        case.run("convert", case.out / "flat.safetensors", case.out / "flat", "--no-sync", *options)
        wanted = {"model": flat} if options else flat
        compare(_load_state_dict_from_keys(checkpoint_id=case.out / "flat"), wanted, f"converted with {options}")
        if not options:
            same(_load_state_dict_from_keys("c", checkpoint_id=case.out / "flat")["c"].tolist(), [0, 1, 2, 3, 4], "one key")
        same(answer(case, "inspect", case.out / "flat", 0)["writer"].get("program"), "dcpctl", "the writer")
    check("program" not in answer(case, "inspect", case.out / "base", 0)["writer"], "torch's own is taken for dcpctl's")


def main():
    dcpctl, *names = sys.argv[1:]
    torch.set_num_threads(1)
    for name in names:
        print(name)
        globals()[name](Case(dcpctl, "threads"))
    finish()


if __name__ == "__main__":
    main()
