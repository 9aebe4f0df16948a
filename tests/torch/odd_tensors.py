"""What stands in a tensor's place: tensors that are not plain, and what is none.

    odd_tensors.py DCPCTL items|storages|opaque|objects...
"""
import copyreg
import io
import os
import pickle
import shutil
import sys
import zipfile
from collections import OrderedDict

from agree import Runs, answer, metadata_of, put_item, save, saved
from case import Case, check, run_named, same, torch


class Holder:
    """What a trainer may save: an object that only its own class understands."""

    def __init__(self, **values):
        self.__dict__ |= values


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


def describe(folder, dtype, shape=None):
    """Another dtype and shape in the metadata of `w`."""
    metadata = metadata_of(folder)
    w = metadata.state_dict_metadata["w"]
    w.properties.dtype = dtype
    if shape:
        w.size = w.chunks[0].sizes = torch.Size(shape)
    (folder / ".metadata").write_bytes(pickle.dumps(metadata))


def changed(item, function):
    """Its records as function(name, data) gives them; None: without it."""
    out = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(item)) as old, zipfile.ZipFile(out, "w") as new:
        for info in old.infolist():
            data = function(info.filename.partition("/")[2], old.read(info))
            if data is not None:
                new.writestr(info.filename, data)
    return out.getvalue()


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
        describe(case.out / "dcp", dtype=tensor.dtype)
        check(isinstance(torch.load(io.BytesIO(item), weights_only=True), torch.Tensor), f"torch refuses {name}")
        said = answer(case, "verify", case.out / "dcp", 0, "--quick")
        same([f["id"] for f in said["findings"]], ["pickle_unsafe"] if name == "subclass" else [], f"{name}: findings")
        if name in ("quantized", "sparse", "csr", "meta"):
            describe(case.out / "dcp", dtype=torch.float64)
            same([f["id"] for f in answer(case, "verify", case.out / "dcp", 1)["findings"]], ["dtype_not_convertible"], f"{name} of another dtype")
            describe(case.out / "dcp", dtype=tensor.dtype, shape=(7, 5))
            same([f["id"] for f in answer(case, "verify", case.out / "dcp", 1)["findings"]], ["chunk_shape_differs"], f"{name} of another shape")
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        save(case.out / "dcp", state)
        item = saved(plain, pickle_protocol=protocol)
        put_item(case.out / "dcp", "w", item)
        try:
            torch.load(io.BytesIO(item), weights_only=True)
            loads = True
        except pickle.UnpicklingError:
            loads = False
        said = answer(case, "verify", case.out / "dcp", 0 if loads else 1)
        same([f["id"] in ("item_refused", "pickle_refused_opcode") for f in said["findings"]], [] if loads else [True], f"a tensor in protocol {protocol}")
    for flags in [{"neg": False}, {"neg": True}]:  # that it is there is enough
        save(case.out / "dcp", state)
        item = saved(Runs(torch._utils._rebuild_tensor_v2, plain._typed_storage(), 0, (2, 3), (3, 1), False, OrderedDict(), flags))
        put_item(case.out / "dcp", "w", item)
        case.run("consolidate", case.out / "dcp", case.out / "flags.pt", "--force")
        check(torch.equal(torch.load(case.out / "flags.pt")["w"], torch.load(io.BytesIO(item))), f"{flags}: values")
    hooked = torch.ones(2, 3)
    refused = {
        "call": Runs(os.system, "true"),
        "call in a tensor": Runs(torch._utils._rebuild_tensor_v2, plain._typed_storage(), 0, (2, 3), (3, 1), False, Runs(os.system, "true")),
        "class": torch.Tensor,
        "number": 5,
        "state dict": {"w": hooked},
        "device": torch.device("cpu"),
        "object": Runs(copyreg._reconstructor, Case, object, None),
        "class with a size": Runs(torch.FloatTensor, 3),
    }
    for name, value in refused.items():
        save(case.out / "dcp", state)
        item = saved(value)
        try:
            is_tensor = torch.load(io.BytesIO(item), weights_only=True).shape == plain.shape
        except (pickle.UnpicklingError, AttributeError):
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


def storages(case):
    """Records that are missing, or not as long as the storages that the pickle names, tensors that reach outside, and pickles that are not whole: damage exactly
    where torch does not load the item."""
    kept = {"t": torch.arange(3.0), "e": torch.empty(0), "s": torch.ones(2, dtype=torch.int16)[:1], "u": torch.ones(5, dtype=torch.uint16)}
    values = {
        "object": kept,
        "held": Holder(**kept, empty=torch.empty(0, 6).chunk(2, dim=1)[1], view=torch.arange(8.0).view(2, 4)[1:, ::2]),
        "tensor": torch.arange(6.0).reshape(2, 3),
        "quantized": torch.quantize_per_tensor(torch.ones(2, 3), 0.5, 3, torch.qint8),
        "sparse": torch.sparse_coo_tensor(torch.tensor([[0, 1], [1, 0]]), torch.tensor([1.0, 2.0]), (2, 3)),
    }
    changes = {
        "as it is": lambda name, data: data,
        "missing": lambda name, data: None if name.startswith("data/") else data,
        "short": lambda name, data: data[:-1] if name.startswith("data/") else data,
        "long": lambda name, data: data + b"x" if name.startswith("data/") else data,
        "one is long": lambda name, data: data + b"x" if name == "data/0" else data,
        "more": lambda name, data: data.replace(b"K\3\x85", b"K\x09\x85").replace(b"K\2K\3\x86", b"K\x09K\3\x86") if name == "data.pkl" else data,
        "far apart": lambda name, data: data.replace(b"K\1\x85", b"K\x09\x85").replace(b"K\3K\1\x86", b"K\x09K\1\x86") if name == "data.pkl" else data,
        "nothing": lambda name, data: b"\x80\2." if name == "data.pkl" else data,
        "odd dict": lambda name, data: b"\x80\2}(K\1u." if name == "data.pkl" else data,
        "no mark": lambda name, data: b"\x80\2]K\1e." if name == "data.pkl" else data,
        "no slot": lambda name, data: b"\x80\2h\5." if name == "data.pkl" else data,
        "protocol": lambda name, data: b"\x80\x68" + data[2:] if name == "data.pkl" else data,
        "a state": lambda name, data: data[:-1] + b"}X\1\0\0\0aK\1sb." if name == "data.pkl" else data,
    }
    for kind, value in values.items():
        for change, function in changes.items():
            is_object = kind in ("object", "held")
            if change == "protocol" and not is_object:
                continue  # the reader of weights_only=True only warns
            if change == "more" and kind == "sparse":
                continue  # it is of that shape then
            item = changed(saved(value), function)
            check((item == changed(saved(value), changes["as it is"])) == (change == "as it is"), f"{kind}: {change} changes nothing")
            try:
                torch.load(io.BytesIO(item), weights_only=not is_object)
                loads = True
            except Exception:
                loads = False
            loads = loads and not (kind == "quantized" and change in ("more", "far apart"))  # torch 2.11 makes its storage longer, by bytes that nobody wrote
            save(case.out / "dcp", {"w": torch.empty(2, 3), "o": {"object": 1}})
            put_item(case.out / "dcp", "o.object" if is_object else "w", item)
            if kind == "quantized":
                describe(case.out / "dcp", dtype=value.dtype)
            said = answer(case, "verify", case.out / "dcp", 0 if loads else 1)
            same(sum(f["severity"] == "damage" for f in said["findings"]), 0 if loads else 1, f"{kind}, {change}: findings {said['findings']}")
            if not loads and not (is_object and change in ("nothing", "odd dict", "no mark", "no slot", "protocol", "a state")):
                case.run("convert", case.out / "dcp", case.out / "out", exit_code=3)
            case.run("consolidate", case.out / "dcp", case.out / "out.pt", "--force", exit_code=0 if loads else 3)
            if change in ("as it is", "missing", "short", "long", "one is long", "more", "far apart"):
                whole = io.BytesIO()
                torch.save({"a": value, "b": 1}, whole)
                (case.out / "in.pt").write_bytes(changed(whole.getvalue(), function))
                case.run("verify", case.out / "in.pt", exit_code=0 if loads else 3)


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
        if name == "subclass":  # a wrapper of one plain tensor is read as that tensor
            out, _, _ = case.consolidate("subclass.pt")
            same(torch.load(out)["layer"]["weight"].tolist(), tensor.inner.tolist(), name)
            out, _, _ = case.consolidate("subclass.safetensors")
            continue
        if name not in ("nested", "jagged"):
            same(said["tensors"][1]["shape"], list(tensor.shape), f"{name}: shape")
        result = case.run("consolidate", case.out / "in.pt", case.out / "out.safetensors", exit_code=3)
        check("layer.weight" in result.stderr, f"{name}: not named in {result.stderr}")
        result = case.run("convert", case.out / "in.pt", case.out / "out", "--world-size", "2", exit_code=0 if name == "quantized" else 3)
        shutil.rmtree(case.out / "out", ignore_errors=True)
        out, _, _ = case.consolidate(f"{name}.pt")
        got = torch.load(out, weights_only=False)["layer"]["weight"]
        check(type(got) in (type(tensor), torch.nn.Parameter) and got.layout == tensor.layout and got.device == tensor.device, f"{name}: {type(got)}")
        if name == "nested" or name == "jagged":
            same([t.tolist() for t in got.unbind()], [t.tolist() for t in tensor.unbind()], name)
        elif name != "meta":
            same(got.to_dense().dequantize().tolist(), tensor.to_dense().dequantize().tolist(), name)
        out, _, _ = case.consolidate(f"{name}.safetensors", "--exclude", "layer.weight")
        # What cannot be cast is not left in a model of another dtype without a word.
        cast = ["cast", case.out / "in.pt", case.out / "cast.pt", "--dtype", "bf16"]
        if name != "quantized":
            result = case.run(*cast, exit_code=3)
            check("'layer.weight': only plain tensors can be cast" in result.stderr, f"{name}: {result.stderr}")
            check(not (case.out / "cast.pt").exists(), f"{name}: cast")
        case.run(*cast, "--dtype-rule", "layer.weight=keep")
        same(torch.load(case.out / "cast.pt", weights_only=False)["layer"]["bias"].dtype, torch.bfloat16, f"{name}: the others")
        (case.out / "cast.pt").unlink()


class Packed(torch.Tensor):
    """A class that pickles itself in a way of its own."""

    def __reduce_ex__(self, protocol):
        return Runs, (torch.ones, torch.zeros(2))


def objects(case):
    """Objects of a model that are weights: an output without objects is refused, and so is a cast that would leave them as they are."""
    torch.backends.quantized.engine = next(e for e in torch.backends.quantized.supported_engines if e != "none")
    layers = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.LayerNorm(8))
    int8 = torch.ao.quantization.quantize_dynamic(layers, {torch.nn.Linear}, dtype=torch.qint8).state_dict()
    bias = torch.ones(3)
    states = {
        "packed parameters": (int8, "0._packed_params._packed_params"),
        "a tuple": ({"fc.weight": (torch.ones(3), torch.ones(3)), "fc.bias": bias}, "fc.weight"),
        "a class": ({"fc.weight": torch.ones(3).as_subclass(Packed), "fc.bias": bias}, "fc.weight"),
    }
    for name, (state, key) in states.items():
        torch.save({"model": state, "epoch": 1}, case.out / "in.pt")
        save(case.out / "in", {"model": state, "epoch": 1})
        for source in ["in.pt", "in"] if name != "a class" else ["in.pt"]:  # which a tensor item must not name
            for command in [["consolidate", "out.safetensors"], ["consolidate", "out.safetensors", "--model-only"], ["consolidate", "out", "--max-shard-size", "1MB"], ["consolidate", "out.pt", "--tensors-only"], ["cast", "cast.pt" if source == "in.pt" else "cast", "--dtype", "bf16"]]:
                said = case.run(command[0], case.out / source, case.out / command[1], *command[2:], exit_code=3).stderr
                check(f"{key} (an object that holds tensors)" in said, f"{name}, {source}, {command}: {said}")
                check(not (case.out / command[1]).exists(), f"{name}, {source}, {command}: something was written")
            kept = case.out / ("kept.pt" if source == "in.pt" else "kept")
            case.run("cast", case.out / source, kept, "--dtype", "bf16", "--dtype-rule", f"model.{key}=keep", "--force")
            case.run("consolidate", case.out / source, case.out / "rest.safetensors", "--exclude", f"model.{key}", "--force")


if __name__ == "__main__":
    run_named(globals(), sys.argv[2:], sys.argv[1])
