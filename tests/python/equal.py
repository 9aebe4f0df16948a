"""What tests of dcpctl.torch share: checkpoints, and whether two state dicts are equal, bit for bit."""
import os
import sys
import warnings
from pathlib import Path

import torch
import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint.default_planner import _EmptyStateDictLoadPlanner

warnings.filterwarnings("ignore", message=".*torch.distributed is")
ROOT = Path(__file__).resolve().parent.parent.parent
sys.path.append(str(ROOT / "tests/data"))  # classes that checkpoints there name


def checkpoints():
    """Folders with .metadata: those of tests/data, and the corpus if it is there. Of those with a file of metadata for each rank, torch loads what its
    own rank has saved, and leaves the rest of the memory as it is."""
    for top in [ROOT / "tests/data", ROOT.parent / "shared/corpus"]:
        for metadata in sorted(top.rglob(".metadata")):
            yield metadata.parent


def whole(reader, planner=_EmptyStateDictLoadPlanner, **kwargs):
    """Everything that a checkpoint holds, by torch's planner."""
    from torch.distributed.checkpoint.state_dict_loader import _load_state_dict

    state = {}
    _load_state_dict(state, storage_reader=reader, planner=planner(**kwargs), no_dist=True)
    return state


def bits(tensor):
    return tensor.detach().cpu().resolve_conj().resolve_neg().contiguous().flatten().view(torch.uint8) if tensor.numel() else tensor.new_empty(0)


def differences(a, b, at="", seen=None):
    """Where two state dicts differ, in words."""
    seen = set() if seen is None else seen  # an object may hold itself
    if (id(a), id(b)) in seen:
        return
    if isinstance(a, (dict, list)):
        seen.add((id(a), id(b)))
    if isinstance(a, torch.Tensor) and isinstance(b, torch.Tensor):
        if (a.dtype, a.shape) != (b.dtype, b.shape):
            yield f"{at}: {a.dtype} {list(a.shape)}, {b.dtype} {list(b.shape)}"
        elif not torch.equal(bits(a), bits(b)):
            yield f"{at}: other values"
    elif isinstance(a, dict) and isinstance(b, dict):
        if list(a) != list(b):
            yield f"{at}: keys {sorted(map(str, set(a) ^ set(b))) or 'in another order'}"
        for key in a.keys() & b.keys():
            yield from differences(a[key], b[key], f"{at}.{key}", seen)
    elif isinstance(a, (list, tuple)) and isinstance(b, (list, tuple)):
        if type(a) is not type(b) or len(a) != len(b):
            yield f"{at}: {type(a).__name__} of {len(a)}, {type(b).__name__} of {len(b)}"
        for n, (x, y) in enumerate(zip(a, b)):
            yield from differences(x, y, f"{at}[{n}]", seen)
    elif isinstance(a, (int, float, str, bytes, bool, type(None))) or isinstance(b, (int, float, str, bytes, bool, type(None))):
        if type(a) is not type(b) or (a != b and not (a != a and b != b)):
            yield f"{at}: {a!r}, {b!r}"
    elif type(a) is not type(b):
        yield f"{at}: {type(a)}, {type(b)}"
    else:
        yield from differences(getattr(a, "__dict__", repr(a)), getattr(b, "__dict__", repr(b)), f"{at}<{type(a).__name__}>", seen)


def copies(path, folder):
    """A checkpoint that may be changed."""
    import shutil

    to = Path(folder, "ckpt")
    to.parent.mkdir(exist_ok=True)
    shutil.copytree(path, to)
    os.chmod(to, 0o755)
    for file in to.iterdir():
        os.chmod(file, 0o644)
    return to
