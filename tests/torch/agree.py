"""Whether torch and dcpctl agree on what can be loaded, and on what loading would run.

    agree.py DCPCTL unsafe|metadata|forms...
"""
import collections
import copyreg
import io
import json
import os
import pathlib
import pickle
import shutil
import sys
import zipfile

from case import check, compare, dcp, loaded, run_named, same, torch

import cases
from torch.distributed.checkpoint.api import CheckpointException
from torch.distributed.checkpoint.filesystem import SerializationFormat
from torch.distributed.checkpoint.metadata import TensorStorageMetadata
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
        said = [(f["object"], f["id"]) for f in answer(case, "inspect", case.out / "safe", 1)["findings"]]
        calls = [("number", "pickle_unsafe")] if name in ("INST", "OBJ") else []  # what is called is named
        same(said, [("number", "pickle_refused_opcode"), *calls], f"inspect: {name}")
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


def metadata(case):
    """Metadata that torch refuses is damage, and loads in no torch; what it takes is none."""
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
        "a list for a size": pickled(lambda v: setattr(v.state_dict_metadata["a"], "size", [4, 2])),
        "a list for an offset": pickled(lambda v: [object.__setattr__(index, "offset", list(index.offset)) for index in v.storage_data if index.fqn == "a"]),
        "a dict for the storage's meta": pickled(lambda v: setattr(v, "storage_meta", {"a": 1})),
        "no storage's meta": pickled(lambda v: setattr(v, "storage_meta", None)),
        "a path of a number": pickled(lambda v: setattr(v.storage_meta, "checkpoint_id", Runs(pathlib.PosixPath, "/", 4))),
        "a path of a path": pickled(lambda v: setattr(v.storage_meta, "checkpoint_id", Runs(pathlib.PosixPath, "/", pathlib.PosixPath("a")))),
        "a global": pickle.dumps(pickle.loads(good), 2).replace(b"PosixPath", b"Posix\xffath"),
        "a class for a dtype": pickled(properties((torch.Tensor, *a[1:]))),
        "paths that contradict each other": pickled(lambda v: v.planner_data.update({"a": ("b",)})),
        "a tuple for a size": pickled(lambda v: setattr(v.state_dict_metadata["a"], "size", (4, 2))),
        "lists for a chunk": pickled(lambda v: v.state_dict_metadata["a"].chunks[0].__dict__.update(offsets=[0, 0], sizes=[4, 2])),
        "sizes that are none": pickled(lambda v: setattr(v.state_dict_metadata["a"], "size", Runs(torch.Size, ("x",)))),
        "no planner data": pickled(lambda v: setattr(v, "planner_data", None)),
        "another attribute": pickled(lambda v: setattr(v, "more", {"x": 1})),
        "cut": good[:-20],
        "protocol 6": b"\x80\x06" + good[2:],
    }
    changed |= {f"the dtype {d}": pickled(properties((d, *a[1:]))) for d in vars(torch).values() if isinstance(d, torch.dtype)}
    for name, pickle_bytes in changed.items():
        shutil.rmtree(case.out / "changed", ignore_errors=True)
        shutil.copytree(case.out / "good", case.out / "changed")
        (case.out / "changed" / ".metadata").write_bytes(pickle_bytes)
        try:
            # Into tensors of the metadata's own sizes and dtypes.
            said = dcp.FileSystemReader(case.out / "changed").read_metadata().state_dict_metadata
            tensors = {key: m for key, m in said.items() if isinstance(m, TensorStorageMetadata)}
            dcp.load({key: torch.empty(m.size, dtype=m.properties.dtype) for key, m in tensors.items()} | {"b.n": 0}, checkpoint_id=case.out / "changed")
            loads = True
        except (Exception, CheckpointException):
            loads = False
        import subprocess

        ran = subprocess.run([case.dcpctl, "verify", "--json", case.out / "changed"], capture_output=True)
        if loads and name != "another layout":
            same(ran.returncode, 0, f"{name}: verify, and torch loads it")
        elif not loads:
            check(ran.returncode in (1, 3), f"{name}: verify exits with {ran.returncode}, and torch does not load it: {ran.stdout}")
        if not loads and ran.returncode == 1:
            ids = {f["id"] for f in json.loads(ran.stdout)["findings"]}
            if ids == {"dtype_not_convertible"}:
                continue  # it is the item that does not fit
            check(ids & {"pickle_unloadable", "metadata_field", "file_missing"}, f"{name}: {ids}")
            # The changed byte may be of a file's name: then that file is missing, which is an answer, too.
            same(answer(case, "inspect", case.out / "changed", 1)["loads_in"]["torch"], "none", f"{name}: loads in")


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
        # Transforms leave an empty stream for each tensor before the safetensors file.
        zstd = {"_extensions": [ZStandard() for _ in range(len(extra))]} if extra else {}
        save(case.out / "safe", tensors | extra, serialization_format=SerializationFormat.SAFETENSORS, **zstd)
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


if __name__ == "__main__":
    run_named(globals(), sys.argv[2:], sys.argv[1])
