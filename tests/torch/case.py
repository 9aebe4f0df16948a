"""What the oracles share: a case of tests/data beside what torch loads from it, and how results are compared."""
import json
import struct
import subprocess
import sys
import tempfile
import warnings
from pathlib import Path

DATA = Path(__file__).resolve().parent.parent / "data"
sys.path.insert(0, str(DATA))
warnings.filterwarnings("ignore")

import torch  # noqa: E402
import torch.distributed.checkpoint as dcp  # noqa: E402
from safetensors import safe_open  # noqa: E402
from torch.distributed.checkpoint._nested_dict import set_element  # noqa: E402

import describe  # noqa: E402

# What safetensors has no name for; `quantized` tensors are more than their elements.
NO_SAFETENSORS = {"complex128", "complex32", "bcomplex32", "qint8", "quint8", "qint32"}

failures = []


def check(truth, what):
    if not truth:
        failures.append(what)
        print("FAILED:", what)


def same(got, wanted, what):
    check(got == wanted, f"{what}: got {got}, expected {wanted}")


class Case:
    def __init__(self, dcpctl, name):
        self.dcpctl, self.name = dcpctl, name
        self.checkpoint = DATA / name / "ckpt"
        self.expected = json.loads((DATA / name / "expected.json").read_text())
        self.tensors, self.objects = self.expected["tensors"], self.expected["objects"]
        self.scratch = tempfile.TemporaryDirectory()
        self.out = Path(self.scratch.name)

    def run_any(self, *arguments):
        return subprocess.run([self.dcpctl, *map(str, arguments)], capture_output=True, text=True)

    def run(self, *arguments, exit_code=0):
        result = self.run_any(*arguments)
        if result.returncode != exit_code:
            sys.exit(f"{arguments}: exit {result.returncode}, expected {exit_code}\n{result.stdout}{result.stderr}")
        return result

    def consolidate(self, name, *options, **how):
        """The output's path and the JSON document about it."""
        report = self.out / "report.json"
        result = self.run("consolidate", self.checkpoint, self.out / name, "--no-sync", "--report", report, *options, **how)
        return self.out / name, json.loads(report.read_text()), result

    def same_tensor(self, tensor, key, what):
        wanted = {field: value for field, value in self.tensors[key].items() if field != "boxes"}
        same(describe.describe_tensor(tensor), wanted, f"{what}: {key!r}")
        check(tensor.is_contiguous(), f"{what}: {key!r} is not contiguous")

    def skeleton(self, keys):
        """The nesting that torch's planner gives these keys; each leaf is its key."""
        paths = self.expected["paths"] or {key: [key] for key in self.expected["tensors"] | self.expected["objects"]}
        nested = {}
        for key in keys:
            set_element(nested, tuple(paths[key]), Leaf(key))
        return nested

    def same_nesting(self, got, wanted, what, where=()):
        if isinstance(wanted, Leaf):
            if wanted.key in self.tensors:
                check(isinstance(got, torch.Tensor), f"{what}: {where} is a {type(got)}, not a tensor")
                self.same_tensor(got, wanted.key, what)
            else:
                same(describe.describe_object(got), self.objects[wanted.key], f"{what}: {wanted.key!r}")
        elif isinstance(wanted, dict):
            check(type(got) is dict, f"{what}: {where} is a {type(got)}, not a dict")
            same(set(got), set(wanted), f"{what}: keys at {where}")
            for key in wanted:
                self.same_nesting(got[key], wanted[key], what, (*where, key))
        elif isinstance(wanted, list):
            check(type(got) is list, f"{what}: {where} is a {type(got)}, not a list")
            same(len(got), len(wanted), f"{what}: length of the list at {where}")
            for i, (one, other) in enumerate(zip(got, wanted)):
                self.same_nesting(one, other, what, (*where, i))
        else:
            same(got, wanted, f"{what}: {where}")  # a list position that no key fills


class Leaf:
    def __init__(self, key):
        self.key = key


def read_safetensors(path):
    with open(path, "rb") as f:
        (header_bytes,) = struct.unpack("<Q", f.read(8))
        header = json.loads(f.read(header_bytes))
    same(header_bytes % 8, 0, f"{path.name}: header bytes modulo 8")
    same(header.pop("__metadata__"), {"format": "pt"}, f"{path.name}: __metadata__")
    with safe_open(path, "pt") as f:
        return {key: f.get_tensor(key) for key in f.keys()}


def compare(got, wanted, what, where=()):
    if isinstance(wanted, torch.Tensor):
        same(describe.describe_tensor(got), describe.describe_tensor(wanted), f"{what}: {where}")
    elif isinstance(wanted, dict):
        same(sorted(map(str, got)), sorted(map(str, wanted)), f"{what}: keys at {where}")
        check(all(key in got for key in wanted), f"{what}: kinds of keys at {where}")
        for key in wanted:
            compare(got[key], wanted[key], what, (*where, key))
    elif isinstance(wanted, list) and where[-1:] != ("params",) and any(isinstance(v, (torch.Tensor, dict)) for v in wanted):
        same(len(got), len(wanted), f"{what}: {where}")
        for i, value in enumerate(wanted):
            compare(got[i], value, what, (*where, i))
    else:
        same(describe.describe_object(got), describe.describe_object(wanted), f"{what}: {where}")


def loaded(folder):
    """The tensors of a checkpoint, flat, as torch loads them."""
    metadata = dcp.FileSystemReader(folder).read_metadata().state_dict_metadata
    state = {key: torch.empty(m.size, dtype=m.properties.dtype) for key, m in metadata.items() if hasattr(m, "size")}
    planner = dcp.DefaultLoadPlanner(flatten_state_dict=False)
    dcp.state_dict_loader._load_state_dict(state, storage_reader=dcp.FileSystemReader(folder), planner=planner, no_dist=True)
    return state


def run_named(functions, names, dcpctl):
    """Tests of a case by their names, from a module's globals(); each gets a folder of its own."""
    torch.set_num_threads(1)
    for name in names:
        print(name)
        functions[name](Case(dcpctl, "threads"))
    finish()


def finish():
    print(f"{len(failures)} failures")
    sys.exit(1 if failures else 0)
