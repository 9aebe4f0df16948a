"""Forms that others give to what torch saves.

    other_forms.py DCPCTL records|names|wrappers|shards|extra_states|beside...
"""
import collections
import io
import json
import os
import pickle
import sys
import types
import zipfile

from agree import Runs, answer, metadata_of, put_item, save, saved
from case import check, compare, dcp, run_named, same, torch
from odd_tensors import Doubled, Holder


def records(case):
    """Copies of torch's dataclasses in modules of their own, as OLMo-core and NeMo Automodel have them: read, and written as torch's."""
    state = {"model": {"w": torch.arange(6.0).reshape(2, 3)}, "step": 7}
    save(case.out / "dcp", state)
    metadata = metadata_of(case.out / "dcp")
    sys.modules["acme"] = acme = types.ModuleType("acme")
    every = ("Metadata", "TensorStorageMetadata", "ChunkStorageMetadata", "BytesStorageMetadata", "MetadataIndex", "_StorageInfo", "TensorProperties", "StorageMeta", "_MEM_FORMAT_ENCODING")
    for classes, prefix in [(("_StorageInfo",), ""), (every, ""), (every, "_Our")]:

        class Pickler(pickle._Pickler):
            def save_global(self, obj, name=None):
                if getattr(obj, '__name__', None) not in classes:
                    return super().save_global(obj, name)
                own = prefix + obj.__name__
                if not hasattr(acme, own):
                    setattr(acme, own, type(own, (), {"__module__": "acme", "__qualname__": own}))
                copy = getattr(acme, own)
                if id(copy) in self.memo:
                    self.write(self.get(self.memo[id(copy)][0]))
                else:
                    super().save_global(copy)

            dispatch = pickle._Pickler.dispatch | {type: save_global}

        with open(case.out / "dcp" / ".metadata", "wb") as file:
            Pickler(file, 4).dump(metadata)
        data = (case.out / "dcp" / ".metadata").read_bytes()
        check(data.count(b"acme") > 0, "nothing is acme's")
        said = answer(case, "inspect", case.out / "dcp", 0)
        same(said["loads_in"]["packages"], ["acme"], "packages")
        case.run("verify", case.out / "dcp")
        case.checkpoint = case.out / "dcp"
        out, _, _ = case.consolidate("out.pt", "--force")
        compare(torch.load(out), state, "out.pt")
        case.run("edit", case.out / "dcp", case.out / "edited", "--no-sync", "--force")
        check(b"acme" not in (case.out / "edited" / ".metadata").read_bytes(), "the output names acme")
        target = {"model": {"w": torch.zeros(2, 3)}, "step": 0}
        dcp.load(target, checkpoint_id=case.out / "edited", no_dist=True)
        compare(target, state, "edited")


def names(case):
    """Dict keys that result in one key: only an output that goes by keys refuses both of them."""
    milestones = collections.Counter({25: 1, "25": 2})
    state = {"model": {"w": torch.ones(2)}, "lr": {"milestones": milestones, "gamma": 0.1}, "a.b": torch.ones(1), "a": {"b": torch.zeros(1)}}
    torch.save(state, case.out / "in.pt")
    case.checkpoint = case.out / "in.pt"
    said = answer(case, "verify", case.out / "in.pt", 0)
    same([f["id"] for f in said["findings"]], ["state_dict_key_twice"], "findings")
    said = answer(case, "inspect", case.out / "in.pt", 0)
    same([b["key"] for b in said["blobs"]], ["lr.gamma", "lr.milestones.25", "lr.milestones.25#2"], "objects")
    same([t["key"] for t in said["tensors"]], ["a.b", "a.b#2", "model.w"], "tensors")
    for key, value in {"lr.milestones.25": "1", "lr.milestones.25#2": "2"}.items():
        same(case.run("extract", case.out / "in.pt", key).stdout.strip(), value, key)
    out, _, _ = case.consolidate("out.pt")
    compare(torch.load(out, weights_only=False), {**state, "lr": {**state["lr"], "milestones": dict(milestones)}}, "out.pt")
    out, _, _ = case.consolidate("model.pt", "--model-only", "--exclude", "a.b*")
    compare(torch.load(out), state["model"], "--model-only")
    out, _, _ = case.consolidate("one.safetensors", "--exclude", "a.b#2")
    for left_out, kept in [("*#2", 1), ("lr.milestones.25", 2)]:
        case.run("convert", case.out / "in.pt", case.out / "dcp", "--exclude", left_out, "--exclude", "a.b*", "--world-size", 1, "--force", "--no-sync")
        same(case.run("extract", case.out / "dcp", "lr.milestones.25").stdout.strip(), str(kept), f"without {left_out}")
    case.run("convert", case.out / "in.pt", case.out / "dcp", "--exclude", "a.b#2", "--rename", "25#2=>text", "--world-size", 1, "--force", "--no-sync")
    same(case.run("extract", case.out / "dcp", "lr.milestones.text").stdout.strip(), "2", "renamed")
    for command in [["convert", "refused", "--world-size", 1], ["consolidate", "refused.safetensors"]]:
        result = case.run(command[0], case.out / "in.pt", case.out / command[1], *command[2:], exit_code=2)
        check("two keys have the same name in the output" in result.stderr, f"{command}: {result.stderr}")
        check(not (case.out / command[1]).exists(), f"{command}: something was written")


class Scaled(Doubled):
    """Whose elements are not those of the tensor inside."""

    def __init__(self, inner):
        super().__init__(inner)
        self.scale = 2.0


class Two(Doubled):
    def __init__(self, inner):
        super().__init__(inner)
        self.other = inner + 1


def sharded(folder, tensor, make):
    """`w` in two chunks, whose items are what make() gives for each."""
    save(folder, {"w": tensor, "b": torch.ones(2), "n": 1})
    metadata = metadata_of(folder)
    half = tensor.shape[0] // 2
    (index,) = [index for index in metadata.storage_data if index.fqn == "w"]
    info = metadata.storage_data.pop(index)
    metadata.state_dict_metadata["w"].chunks = []
    with open(folder / info.relative_path, "ab") as file:
        for n, part in enumerate(tensor.split(half)):
            item = saved(make(part.clone()))
            offset = torch.Size([n * half, *[0] * (tensor.dim() - 1)])
            metadata.state_dict_metadata["w"].chunks.append(dcp.metadata.ChunkStorageMetadata(offset, part.shape))
            metadata.storage_data[dcp.metadata.MetadataIndex("w", offset, n)] = type(info)(info.relative_path, file.tell(), len(item))
            file.write(item)
    (folder / ".metadata").write_bytes(pickle.dumps(metadata))


def wrappers(case):
    """A class that wraps one plain tensor, as torchao's for float8 training: its items are read as the tensor is."""
    plain = torch.arange(24.0).reshape(6, 4)
    sharded(case.out / "dcp", plain, Doubled)
    case.checkpoint = case.out / "dcp"
    said = answer(case, "inspect", case.out / "dcp", 0)
    same([t.get("class") for t in said["tensors"]], [None, "odd_tensors.Doubled"], "class")
    said = answer(case, "verify", case.out / "dcp", 0)
    same({f["id"] for f in said["findings"]}, {"pickle_unsafe"}, "findings")
    for name in ["out.pt", "out.safetensors"]:
        out, _, _ = case.consolidate(name)
        same(case.run("diff", case.out / "dcp", out, "--tensors-only").returncode, 0, name)
    same(torch.load(case.out / "out.pt")["w"].tolist(), plain.tolist(), "out.pt")
    case.run("reshard", case.out / "dcp", case.out / "r3", "--world-size", 3, "--no-sync")
    target = {"w": torch.zeros(6, 4)}
    dcp.load(target, checkpoint_id=case.out / "r3", no_dist=True)
    same(target["w"].tolist(), plain.tolist(), "reshard")
    torch.save({"w": torch.nn.Parameter(Doubled(plain)), "b": torch.ones(2)}, case.out / "in.pt")
    case.checkpoint = case.out / "in.pt"
    same(answer(case, "inspect", case.out / "in.pt", 0)["tensors"][1]["class"], "odd_tensors.Doubled", "class in a .pt")
    out, _, _ = case.consolidate("from_pt.safetensors", "--dtype", "bf16")
    same(json.loads(case.run("extract", out, "w", "--format", "json").stdout)["values"], plain.tolist(), "of a .pt")
    # What its class alone can read is not guessed.
    for cls in (Scaled, Two):
        torch.save({"w": cls(plain), "b": torch.ones(2)}, case.out / "in.pt")
        same(answer(case, "inspect", case.out / "in.pt", 0)["tensors"][1]["class"], f"__main__.{cls.__name__}", "class")
        case.run("consolidate", case.out / "in.pt", case.out / "not.safetensors", exit_code=3)
        sharded(case.out / "odd", plain, cls)
        same(answer(case, "inspect", case.out / "odd", 0)["tensors"][1]["class"], f"__main__.{cls.__name__}", "class in a folder")
        case.run("consolidate", case.out / "odd", case.out / "not.pt", exit_code=3)


def shards(case):
    """pytorch_model.bin.index.json, as a folder of safetensors files with an index is."""
    folder = case.out / "hf"
    folder.mkdir()
    files = {"pytorch_model-00001-of-00002.bin": {"a.weight": torch.ones(2, 3), "tied": torch.zeros(2)}, "pytorch_model-00002-of-00002.bin": {"b.weight": torch.arange(4.0)}}

    def write(**index):
        for name, tensors in files.items():
            torch.save(tensors, folder / name)
        weight_map = {key: name for name, tensors in files.items() for key in tensors} | index
        (folder / "pytorch_model.bin.index.json").write_text(json.dumps({"metadata": {"total_size": 48}, "weight_map": weight_map}))

    def findings(exit_code):
        return [(f["severity"], f["id"]) for f in answer(case, "verify", folder, exit_code)["findings"]]

    model = {key: tensor for tensors in files.values() for key, tensor in tensors.items()}
    write()
    same(findings(0), [], "findings")
    same(answer(case, "inspect", folder, 0)["kind"], "torch-shards", "kind")
    for path in [folder, folder / "pytorch_model.bin.index.json"]:
        case.checkpoint = path
        out, _, _ = case.consolidate("out.pt", "--force")
        compare(torch.load(out), model, "out.pt")
        case.run("convert", path, case.out / "dcp", "--world-size", 2, "--force", "--no-sync")
        case.run("diff", path, case.out / "dcp")
        case.run("cast", path, case.out / "cast", "--dtype", "bf16", "--force", "--no-sync")
        check((case.out / "cast" / "model.safetensors.index.json").exists(), "no index")
    files["pytorch_model-00002-of-00002.bin"]["tied"] = torch.full((2,), 5.0)  # the index names one of them
    write(tied="pytorch_model-00001-of-00002.bin")
    same(findings(0), [("warning", "hf_index_other_file")], "a tensor in two files")
    case.run("diff", folder, case.out / "dcp")
    write(tied="pytorch_model-00001-of-00002.bin", lost="pytorch_model-00002-of-00002.bin")
    same(findings(1), [("damage", "hf_index_no_tensor"), ("warning", "hf_index_other_file")], "contradictions")
    (folder / "pytorch_model-00002-of-00002.bin").unlink()
    check(("damage", "file_missing") in findings(1), "a missing file is not found")
    (folder / "pytorch_model-00001-of-00002.bin").unlink()
    case.run("inspect", folder, exit_code=1)


def extra_states(case):
    """Transformer Engine 2 keeps its objects in uint8 tensors: an export leaves them out as it does objects, a checkpoint keeps them."""
    state = {"model": {"fc.weight": torch.ones(2, 3), "fc._extra_state": torch.frombuffer(bytearray(saved({"a": 1})), dtype=torch.uint8), "mask": torch.ones(3, dtype=torch.uint8)}}
    torch.save(state, case.out / "in.pt")
    save(case.out / "dcp", state)
    for path in ["in.pt", "dcp"]:
        case.checkpoint = case.out / path
        out, report, result = case.consolidate("out.safetensors", "--model-only", "--force")
        same(sorted(t["key"] for t in answer(case, "inspect", out, 0)["tensors"]), ["fc.weight", "mask"], path)
        check("left out 1 _extra_state" in result.stderr, result.stderr)
        same(report["dropped"]["objects"], 1, "report")
        out, _, _ = case.consolidate("out.pt", "--model-only", "--force")
        compare(torch.load(out), state["model"], path)
        out, _, _ = case.consolidate("tensors.pt", "--tensors-only", "--force")
        same(sorted(torch.load(out)["model"]), ["fc.weight", "mask"], "--tensors-only")


def beside(case):
    """What torch does not load but lies where a pickle is looked for: behind one, or in a record of its own."""
    call = pickle.dumps(Runs(os.system, "true"))
    save(case.out / "dcp", {"w": torch.ones(2), "n": {1, 2}})
    torch.save({"w": torch.ones(2), "n": 1}, case.out / "in.pt")

    def rewritten(archive, more, behind=b""):
        out = io.BytesIO()
        with zipfile.ZipFile(io.BytesIO(archive)) as old, zipfile.ZipFile(out, "w") as new:
            for info in old.infolist():
                new.writestr(info.filename, old.read(info) + (behind if info.filename.endswith("/data.pkl") else b""))
            root = old.namelist()[0].partition("/")[0]
            for name, data in more.items():
                new.writestr(f"{root}/{name}", data)
        return out.getvalue()

    def findings(path, command="verify", exit_code=0, *options):
        return sorted({f["id"] for f in answer(case, command, path, exit_code, *options)["findings"]})

    whole = (case.out / "in.pt").read_bytes()
    forms = {"pickle_trailing": ({}, call), "pickle_unloaded": ({"payload.pkl": call}, b""), "also pickle_unloaded": ({"data/99": call}, b""), "": ({"notes.txt": b"read me"}, b"")}
    for found, (more, behind) in forms.items():
        found = found.split()[-1:]
        (case.out / "in.pt").write_bytes(rewritten(whole, more, behind))
        for command in ["inspect", "verify"]:
            same(findings(case.out / "in.pt", command), found, f"{command} in.pt, {more}")
            findings(case.out / "in.pt", command, 1 if found else 0, "--fail-on", "unsafe")
        for key, value in [("w", torch.ones(2)), ("n", {1, 2})]:
            save(case.out / "dcp", {"w": torch.ones(2), "n": {1, 2}})
            put_item(case.out / "dcp", key, rewritten(saved(value), more, behind))
            same(findings(case.out / "dcp"), found, f"verify dcp, {key}, {more}")
            for command in ["inspect", "verify"]:
                findings(case.out / "dcp", command, 1 if found else 0, "--fail-on", "unsafe")
    save(case.out / "dcp", {"w": torch.ones(2)})
    with open(case.out / "dcp" / ".metadata", "ab") as file:
        file.write(call)
    for command in ["inspect", "verify"]:
        same(findings(case.out / "dcp", command), ["pickle_trailing"], f"{command}: behind the metadata")
        findings(case.out / "dcp", command, 1, "--fail-on", "unsafe")


if __name__ == "__main__":
    run_named(globals(), sys.argv[2:], sys.argv[1])
