"""What torch saves of a random state dict for roundtrip.py, and what that checkpoint is to hold."""
import collections

from case import NO_SAFETENSORS

import torch
import torch.distributed.checkpoint as dcp
from safetensors.torch import save_file
from torch.distributed.checkpoint._nested_dict import flatten_state_dict, set_element
from torch.distributed.checkpoint._sharded_tensor_utils import _flatten_sharded_tensors
from torch.distributed.checkpoint.metadata import BytesStorageMetadata

import describe
import random_saves as saves

counts = collections.Counter()


def leaves(state):
    """key -> path, value, as torch flattens a state dict."""
    flat, paths = flatten_state_dict(state)
    return {key: (paths[key], value) for key, value in flat.items()}


def is_hollow(value):
    """Empty dicts, which torch drops and dcpctl keeps."""
    return value == {} if isinstance(value, dict) else isinstance(value, list) and value != [] and all(map(is_hollow, value))


def empty_dicts(state, path=()):
    items = state.items() if isinstance(state, dict) else enumerate(state)
    for key, value in items:
        at = (*path, str(key) if isinstance(state, dict) else key)
        if is_hollow(value):
            yield ".".join(map(str, at)), (at, value)
        elif isinstance(value, (dict, list)):
            yield from empty_dicts(value, at)


def nested(flat):
    made = {}
    for path, value in flat.values():
        set_element(made, path, value)
    return made


def torch_rebuilds(flat):
    """Whether torch finds the keys again in the state dict that it makes of the metadata. Not where a dict was empty: it takes a list of objects
    alone, and None where the list had an empty dict, for one object."""
    unread = {key: (path, value if isinstance(value, torch.Tensor) else BytesStorageMetadata()) for key, (path, value) in flat.items()}
    return set(flatten_state_dict(nested(unread))[0]) == set(flat)


def has_safetensors_form(key, tensor):
    name = describe.dtype_name(tensor.dtype)
    return name not in NO_SAFETENSORS and not (name == "float4_e2m1fn_x2" and tensor.dim() == 0)


def glob_of(key):
    """A pattern that matches this key alone."""
    return "".join(f"[{c}]" if c in "*?[" else "?" if c == "\\" else c for c in key)


class Checkpoint:
    """A folder or file that holds `flat`: key -> (path, value)."""

    def __init__(self, kind, path, flat):
        self.kind, self.path, self.flat = kind, path, flat
        self.nested = None  # pt: what torch.load gives
        self.unsafe = False  # pt: weights_only refuses it
        self.paths_known = False  # dcp: the planner data has the paths

    def tensors(self):
        return {key: value for key, (_, value) in self.flat.items() if isinstance(value, torch.Tensor)}


class Refused(Exception):
    """torch itself does not take it."""


def first_checkpoint(trial):
    rng = trial.rng
    kind = rng.choice(["dcp"] * 6 + ["pt"] * 4 + ["hf", "hf", "safetensors"] + ["dcp of safetensors"] * 2)
    world = rng.choice([1, 1, 2, 3, 4, 6, 8])
    if kind == "pt":
        world = 1
    # Unless it flattens, torch pickles what is nested, and with it whatever a rank holds.
    flatten = kind != "dcp" or world > 1 or rng.random() < 0.6
    by_name = kind in ("hf", "safetensors")
    # torch's writers of safetensors forget that a view is conj.
    state = saves.random_state(rng, world, objects=not by_name, lazy=kind in ("dcp", "pt"))
    whole = saves.whole(state)
    if kind == "dcp" and not flatten:
        whole = _flatten_sharded_tensors(whole)  # what torch takes for the top level
    try:
        flat = leaves(whole)
    except ValueError as e:
        raise Refused(str(e))
    folder = trial.folder / "saved"
    if kind == "pt":
        path = trial.folder / "saved.pt"
        torch.save(saves.on_rank(state, 0, 1), path)
        made = Checkpoint("pt", path, {**flat, **dict(empty_dicts(whole))})
        made.nested, made.unsafe = whole, True
        return made
    if kind == "dcp":
        if not flatten:
            flat = {key: ((key,), value) for key, value in whole.items()}
        how = saves.save if rng.random() < 0.9 else saves.save_rank_local
        writer = saves.random_writer(rng, folder)
        try:
            if how is saves.save and rng.random() < 0.15:  # over an older one
                how(saves.random_state(rng, 2), 2, writer, saves.random_planner(rng, True))
            how(state, world, writer, saves.random_planner(rng, flatten))
        except ValueError as e:  # of strided placements that overlap
            raise Refused(str(e))
        made = Checkpoint("dcp", folder, flat)
        made.paths_known = flatten
        return made
    if kind == "dcp of safetensors":  # torch cannot load them itself
        if not all(has_safetensors_form(key, value) for key, (_, value) in flat.items() if isinstance(value, torch.Tensor)):
            raise Refused("a dtype that safetensors lacks")
        try:
            saves.save(state, world, saves.safetensors_writer(folder), saves.random_planner(rng, True))
        except (RuntimeError, ValueError, dcp.api.CheckpointException) as e:  # of tensors that share memory or are not contiguous
            raise Refused(str(e))
        metadata = dcp.FileSystemReader(folder).read_metadata()
        places = collections.Counter((index.fqn, info.relative_path) for index, info in metadata.storage_data.items())
        if max(places.values(), default=0) > 1:
            raise Refused("of the chunks of a tensor in one file torch keeps the last")
        made = Checkpoint("dcp", folder, flat)
        made.paths_known = True
        counts["saved as safetensors by a FileSystemWriter"] += 1
        return made
    # Tensors by name, which is what safetensors knows.
    flat = {key: ((key,), value) for key, (_, value) in flat.items()}
    if not all(has_safetensors_form(key, value) for key, (_, value) in flat.items()):
        raise Refused("a dtype that safetensors lacks")
    if kind == "safetensors":
        save_file({key: value.contiguous().clone() for key, (_, value) in flat.items()}, trial.folder / "saved.safetensors")
        return Checkpoint(kind, trial.folder / "saved.safetensors", flat)
    folder.mkdir()
    try:
        saves.save(state, world, saves.random_hf_writer(rng, folder, flat, world > 1 or rng.random() < 0.5), saves.random_planner(rng, True))
    except (RuntimeError, ValueError) as e:  # of tensors that share memory or are not contiguous
        raise Refused(str(e))
    return Checkpoint("hf", folder, flat)
