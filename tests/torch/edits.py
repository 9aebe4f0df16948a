"""What torch loads after edits by metadata alone, and of steps that lost their optimizer.

    edits.py DCPCTL names|nesting|ranks|optimizer|large|old-torch...
"""
import os
import pickle
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from case import Case, check, compare, dcp, finish, loaded, same, torch

from torch.distributed.checkpoint.default_planner import _EmptyStateDictLoadPlanner
from torch.distributed.checkpoint.state_dict_loader import _load_state_dict

CASES = ["fsdp2_ws4", "app_state", "titan_like", "lightning_like", "zstd", "nocrc", "noflatten", "plain_odd"]


def dcpctl(*arguments, exit_code=0):
    result = subprocess.run([sys.argv[1], *map(str, arguments)], capture_output=True, text=True, stdin=subprocess.DEVNULL)
    if result.returncode != exit_code:
        sys.exit(f"{arguments}: exit {result.returncode}, expected {exit_code}\n{result.stdout}{result.stderr}")
    return result.stdout


def tree(folder):
    """The nested state dict, objects and all, as torch's converter loads it."""
    state = {}
    _load_state_dict(state, storage_reader=dcp.FileSystemReader(folder), planner=_EmptyStateDictLoadPlanner(), no_dist=True)
    return state


def data_of(folder):
    return {f.name: f.read_bytes() for f in Path(folder).glob("*.distcp")}


def loadable(case):
    """Whether this torch loads the case at all: some are of readers that it lacks."""
    try:
        return loaded(case.checkpoint)
    except Exception:
        return None


def names(scratch):
    """Each key under its new name, for each way to share the data."""
    tried = 0
    for name in CASES:
        case = Case(sys.argv[1], name)
        before = loadable(case)
        if before is None:
            continue
        tried += 1
        data = data_of(case.checkpoint)
        for how in ("hard", "copy"):
            out = scratch / f"{name}-{how}"
            source = scratch / f"{name}-source"  # links do not cross file systems
            if not source.exists():
                shutil.copytree(case.checkpoint, source)
            dcpctl("edit", source, out, "--rename", "^=>zz_", "--link", how, "--no-sync")
            got = loaded(out)
            same(sorted(got), sorted("zz_" + key for key in before), f"{name} {how}: keys")
            compare(got, {"zz_" + key: tensor for key, tensor in before.items()}, f"{name} {how}")
            used = data_of(out)
            check(all(used[f] == data[f] for f in used), f"{name} {how}: a data file differs")
            same(data_of(source), data, f"{name} {how}: the source")
    check(tried >= 5, f"torch loads only {tried} of the cases")


def nesting(scratch):
    """Roots change, and what is nested stays nested."""
    state = {"model": {"a": torch.arange(6.0).reshape(2, 3), "l": [torch.ones(2), {"x": 5}]}, "optimizer": {"state": {"a": {"exp_avg": torch.zeros(2, 3)}},
             "param_groups": [{"lr": 0.1, "params": ["a"]}]}, "step": 7}  # fmt: skip
    dcp.save(state, checkpoint_id=scratch / "made", no_dist=True)
    dcpctl("edit", scratch / "made", scratch / "root", "--root", "model", "--add-root", "app.net", "--no-sync")
    compare(tree(scratch / "root"), {"app": {"net": state["model"]}}, "another root")
    dcpctl("edit", scratch / "made", scratch / "less", "--exclude", "optimizer*", "--no-sync")
    compare(tree(scratch / "less"), {"model": state["model"], "step": 7}, "fewer keys")
    fresh = {"model": {"a": torch.zeros(2, 3)}}
    dcp.load(fresh, checkpoint_id=scratch / "less", no_dist=True)
    check(torch.equal(fresh["model"]["a"], state["model"]["a"]), "dcp.load of fewer keys")


def ranks(scratch):
    """Metadata of ranks that saved by themselves, merged."""
    first = {"a": torch.arange(8.0), "both": torch.ones(3), "step": 3}
    second = {"b": torch.arange(5), "both": torch.ones(3), "step": 3}
    out = scratch / "local"
    out.mkdir()
    for rank, state in enumerate((first, second)):
        part = scratch / f"rank{rank}"
        dcp.save(state, checkpoint_id=part, no_dist=True)
        (part / "__0_0.distcp").rename(out / f"__{rank}_0.distcp")
        metadata = pickle.loads((part / ".metadata").read_bytes())
        for info in metadata.storage_data.values():
            info.relative_path = f"__{rank}_0.distcp"
        (out / f"__{rank}.metadata").write_bytes(pickle.dumps(metadata))
    dcpctl("edit", out, scratch / "merged", "--no-sync")
    compare(tree(scratch / "merged"), first | second, "merged ranks")
    dcpctl("edit", out, "--in-place", "--no-sync")
    compare(tree(out), first | second, "merged in place")


def optimizer(scratch):
    """A step without its optimizer: torch loads the same model from less."""
    for name in ("fsdp2_ws4", "titan_like", "app_state"):
        case = Case(sys.argv[1], name)
        before = loadable(case)
        if before is None:
            continue
        run = scratch / name
        for step in (1, 2):
            shutil.copytree(case.checkpoint, run / f"step-{step}")
        model = dcpctl("inspect", run / "step-1", "--model-only", "--keep-root", "--keys")
        dcpctl("prune", run, "--keep-latest", 1, "--drop-optimizer", "--yes")
        same(loaded(run / "step-2").keys(), before.keys(), f"{name}: the newest")
        after = loaded(run / "step-1")
        check(0 < len(after) < len(before), f"{name}: {len(after)} of {len(before)} keys")
        for key, tensor in after.items():
            check(key in model, f"{name}: {key} is no key of the model")
            check(torch.equal(tensor, before[key]), f"{name}: {key}")
        whole, part = tree(case.checkpoint), tree(run / "step-1")
        check(all(k in whole for k in part), f"{name}: nesting")
        size = lambda folder: sum(f.stat().st_size for f in folder.iterdir())  # noqa: E731
        check(size(run / "step-1") < size(run / "step-2"), f"{name}: nothing came free")
        check(not [f.name for f in (run / "step-1").iterdir() if "dcpctl" in f.name], f"{name}: something is left")
        dcpctl("verify", run / "step-1")


def large(scratch):
    """A checkpoint of a terabyte, nearly all of it holes: its keys get other names in no time, and its data is not touched."""
    folder = scratch / "large"
    dcp.save({"w": torch.arange(4.0)}, checkpoint_id=folder, no_dist=True)
    data = folder / "__0_0.distcp"
    os.truncate(data, 1 << 40)
    begin = time.monotonic()
    dcpctl("edit", folder, scratch / "other", "--rename", "w=>v", "--link", "hard")
    dcpctl("edit", folder, "--in-place", "--rename", "w=>u")
    seconds = time.monotonic() - begin
    check(seconds < 5, f"renaming in a terabyte took {seconds} s")
    check(os.stat(data).st_blocks < 1000, "data was written")
    same(list(loaded(scratch / "other")), ["v"], "large: keys")
    same(list(loaded(folder)), ["u"], "large in place: keys")


def old_torch(scratch):
    """The form that older torch reads comes by an edit, too."""
    case = Case(sys.argv[1], "fsdp2_ws4")
    shutil.copytree(case.checkpoint, scratch / "new")
    dcpctl("edit", scratch / "new", scratch / "old", "--for-torch", "2.4", "--no-sync")
    got = loaded(scratch / "old")
    same(sorted(got), sorted(case.tensors), "for torch 2.4: keys")
    for key, tensor in got.items():
        case.same_tensor(tensor, key, "for torch 2.4")


KINDS = {"names": names, "nesting": nesting, "ranks": ranks, "optimizer": optimizer, "large": large, "old-torch": old_torch}

if __name__ == "__main__":
    for kind in sys.argv[2:]:
        with tempfile.TemporaryDirectory() as scratch:
            KINDS[kind](Path(scratch))
    finish()
