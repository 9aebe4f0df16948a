#!/usr/bin/env python3
"""Files in the form that torch wrote before 1.6, beside the same state as an archive: every command gives of one what it gives of the other.

    legacy.py DCPCTL           of what this torch writes
    legacy.py write FOLDER     writes both forms; also for a Python with an older torch
    legacy.py DCPCTL FOLDER    compares those
"""
import io
import json
import pickle
import sys
import tempfile
import warnings
from collections import OrderedDict
from pathlib import Path

import torch

DTYPES = """float64 float32 float16 bfloat16 int64 int32 int16 int8 uint8 bool complex128 complex64 float8_e4m3fn float8_e5m2 uint16 uint32 uint64""".split()


def is_saved(tensor):
    try:
        torch.save(tensor, io.BytesIO(), _use_new_zipfile_serialization=False)
    except KeyError:  # float8 of torch 2.1
        return False
    return True


def dtypes():
    values = torch.tensor([[0.0, 1.0, 2.5], [3.0, 100.0, 7.0]], dtype=torch.float64)
    made = {name: values.to(getattr(torch, name)) for name in DTYPES if hasattr(torch, name)}
    return {name: tensor for name, tensor in made.items() if is_saved(tensor)}


def views():
    base, again = torch.arange(60.0).reshape(6, 10), torch.arange(8, dtype=torch.int16)
    pairs = torch.randn(5, dtype=torch.complex64)
    return {"base": base, "rows": base[2:4], "columns": base.t(), "part": base[:, 3:5], "every": base[::2, ::3], "wide": torch.ones(3, 1).expand(3, 4),
            "ints": again, "same": again, "one": base[3, 3], "pairs": pairs, "conj": pairs.conj(), "neg": torch._neg_view(base[:2])}


def empty():
    none = torch.empty(0)
    return {"none": none, "rows": torch.empty(0, 3), "columns": torch.empty(3, 0, dtype=torch.int8), "as_ints": none.view(torch.int32), "full": torch.ones(2),
            "number": torch.tensor(7), "last": torch.empty(0, dtype=torch.bfloat16), "part": torch.ones(4)[2:2]}


def objects():
    shared = torch.arange(4)
    return {"step": 7, "text": "a\n\u00e9", "big": 1 << 90, "none": None, "set": {1, 2}, "pair": (1, shared), "list": [shared, 3, {"deep": torch.ones(2)}], "size": torch.Size([2, 3]),
            "dtype": torch.bfloat16, "device": torch.device("cpu"), "ordered": OrderedDict([("w", shared), ("n", 1.5)]), "empty": {}, "numbers": [1, 2],
            "parameter": torch.nn.Parameter(torch.ones(3)), "grad": torch.ones(2, requires_grad=True), 3: {"x": torch.zeros(1)}, "bytes": b"\0\xff"}


def odd():
    tagged = torch.ones(2)
    tagged.note = "a"
    return {"quantized": torch.quantize_per_tensor(torch.ones(2, 3), 0.5, 3, torch.qint8), "channels": torch.quantize_per_channel(torch.ones(2, 3), torch.ones(2), torch.zeros(2), 0, torch.quint8),
            "sparse": torch.sparse_coo_tensor(torch.tensor([[0, 1], [1, 0]]), torch.tensor([1.0, 2.0]), (2, 3)), "csr": torch.eye(3).to_sparse_csr(),
            "meta": torch.empty(3, 4, device="meta"), "tagged": tagged, "plain": torch.ones(2)}


def training():
    model = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.BatchNorm1d(3), torch.nn.Linear(3, 2))
    optimizer = torch.optim.Adam(model.parameters())
    model(torch.randn(5, 4)).sum().backward()
    optimizer.step()
    return {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "epoch": 3}


def modules():
    return {"net": torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.Linear(2, 2), torch.nn.ReLU()), "w": torch.ones(3)}


def write(folder):
    """NAME.pt and NAME.old.pt."""
    warnings.filterwarnings("ignore")
    torch.manual_seed(1)
    states = {f.__name__: (f(), 2) for f in (dtypes, views, empty, objects, odd, training, modules)}
    states |= {f"protocol{p}": (objects(), p) for p in (3, 4, 5)}
    states |= {"large": ({f"layer.{i}.weight": torch.full((7,), float(i)) for i in range(3000)}, 4)}
    for name, (state, protocol) in states.items():
        torch.save(state, folder / f"{name}.pt", pickle_protocol=protocol)
        torch.save(state, folder / f"{name}.old.pt", pickle_protocol=protocol, _use_new_zipfile_serialization=False)


def of_first_releases():
    """As torch 0.2 to 0.3 wrote a state dict under Python 2: a call with pairs, tensors without hooks, parameters that are called, parts of storages."""
    sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "bad"))
    from recipes import Op, call, old_file, old_storage, op, rebuild

    def tensor(count, shape, view=None, key="94"):
        return rebuild(old_storage(key=key, count=count, view=view), shape, rest=(), function="torch._utils._rebuild_tensor")

    def parameter(made, grad):
        return Op(call("torch.nn.parameter.Parameter", made) + op((grad, False, call("collections.OrderedDict"))) + pickle.BUILD)

    state = {"w": parameter(tensor(6, (2, 3)), True), "frozen": parameter(tensor(6, (2,), ("95", 1, 2)), False), "mean": tensor(6, (3,), ("96", 2, 4)), "same": tensor(6, (2,), ("95", 1, 2)),
             "other": tensor(1, (1,), key="97"), "object": (tensor(6, (1,), ("98", 5, 1)), 7), "none": call("collections.OrderedDict", [])}
    pairs = [[Op(pickle.SHORT_BINSTRING + bytes([len(k)]) + k.encode()), v] for k, v in state.items()]
    return old_file(call("collections.OrderedDict", pairs), {"97": b"four", "94": b"".join(float(i).hex().encode()[:4] for i in range(6))})


def compare_all(dcpctl, folder):
    from case import check, compare, finish, read_safetensors, same
    from deflated import run, same_content

    def keys(path):
        found = json.loads(run(dcpctl, "inspect", path, "--json").stdout)
        return [(t["key"], t["path"], t["dtype"], t["shape"], t.get("requires_grad")) for t in found["tensors"]], [(b["key"], b["path"]) for b in found["blobs"]]

    def outputs(name, old, new):
        for out, command, *options in ("out.pt", "consolidate"), ("out.safetensors", "consolidate", "--tensors-only", *without(name)), ("dcp", "convert", *without(name)):
            made = [folder / f"{name}.{which}.{out}" for which in ("old", "new")]
            for source, target in zip((old, new), made):
                run(dcpctl, command, source, target, "--no-sync", *options)
            if out == "dcp":
                run(dcpctl, "diff", *made)  # whose objects name their storages differently
            else:
                check(made[0].read_bytes() == made[1].read_bytes(), f"{name}: {out} differs")

    def without(name):
        """What the output has no form for."""
        drop = {"odd": ["quantized", "channels", "sparse", "csr", "meta", "tagged"], "dtypes": ["complex128"]}.get(name, [])
        return [word for key in drop for word in ("--exclude", key)]

    for new in sorted(p for p in folder.glob("*.pt") if p.name.count(".") == 1):
        name, old = new.stem, new.with_suffix(".old.pt")
        same(keys(old), keys(new), f"{name}: keys")
        run(dcpctl, "verify", old)
        run(dcpctl, "diff", old, new)
        same_content(dcpctl, new, old, folder)
        outputs(name, old, new)
        if name == "odd":  # only its own release loads it, perhaps
            continue
        got = torch.load(folder / f"{name}.old.out.pt", weights_only=False)
        wanted = torch.load(new, weights_only=False)  # of the old form, torch cannot read all that it writes
        if name == "modules":
            got["net"], wanted["net"] = got["net"].state_dict(), wanted["net"].state_dict()
        compare(got, wanted, name)
    (folder / "first.bin").write_bytes(of_first_releases())
    run(dcpctl, "consolidate", folder / "first.bin", folder / "first.out.bin", "--no-sync")
    compare(torch.load(folder / "first.out.bin", weights_only=False), torch.load(folder / "first.bin", weights_only=False), "first releases")
    grads = {t["key"]: t.get("requires_grad") for t in json.loads(run(dcpctl, "inspect", folder / "first.bin", "--json").stdout)["tensors"]}
    same([k for k, grad in grads.items() if grad], ["w"], "parameters that are trained")
    unread = torch.nn.Linear(2, 2), torch.ones(3), [torch.ones(2), 1]
    for state in unread:  # no state dict: the same is said of both
        said = []
        for zipped in (True, False):
            torch.save(state, folder / "m.bin", _use_new_zipfile_serialization=zipped)
            said.append(run(dcpctl, "inspect", folder / "m.bin", exit_code=3).stderr.partition("file holds")[2])
        same(said[1], said[0], "no state dict")
    finish()


if __name__ == "__main__":
    if sys.argv[1] == "write":
        write(Path(sys.argv[2]))
    elif len(sys.argv) > 2:
        compare_all(sys.argv[1], Path(sys.argv[2]))
    else:
        with tempfile.TemporaryDirectory() as scratch:
            write(Path(scratch))
            compare_all(sys.argv[1], Path(scratch))
