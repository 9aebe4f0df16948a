"""What stands in a tensor's place: tensors that are not plain, and what is none.

    odd_tensors.py DCPCTL items|opaque...
"""
import copyreg
import io
import os
import pickle
import shutil
import sys

from agree import Runs, answer, put_item, save, saved
from case import Case, check, finish, same, torch


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
    hooked = torch.ones(2, 3)
    refused = {
        "call": Runs(os.system, "true"),
        "call in a tensor": Runs(torch._utils._rebuild_tensor_v2, plain._typed_storage(), 0, (2, 3), (3, 1), False, Runs(os.system, "true")),
        "class": torch.Tensor,
        "number": 5,
        "state dict": {"w": hooked},
        "device": torch.device("cpu"),
        "object": Runs(copyreg._reconstructor, Case, object, None),
    }
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
        # What cannot be cast is not left in a model of another dtype without a word.
        cast = ["cast", case.out / "in.pt", case.out / "cast.pt", "--dtype", "bf16"]
        if name != "quantized":
            result = case.run(*cast, exit_code=3)
            check("'layer.weight': only plain tensors can be cast" in result.stderr, f"{name}: {result.stderr}")
            check(not (case.out / "cast.pt").exists(), f"{name}: cast")
        case.run(*cast, "--dtype-rule", "layer.weight=keep")
        same(torch.load(case.out / "cast.pt", weights_only=False)["layer"]["bias"].dtype, torch.bfloat16, f"{name}: the others")
        (case.out / "cast.pt").unlink()


def main():
    dcpctl, *names = sys.argv[1:]
    torch.set_num_threads(1)
    for name in names:
        print(name)
        globals()[name](Case(dcpctl, "threads"))
    finish()


if __name__ == "__main__":
    main()
