#!/usr/bin/env python3
"""What transformers keeps in float32 of the families that no built-in map is for.

    kept_lists.py DCPCTL check FILE    FILE (src/maps/kept.def) is what it is made of now
    kept_lists.py DCPCTL make FILE     writes it

transformers finds pieces in the names that a model has in memory, and in nothing else. Where a published name has another piece than its name in
memory, or a parameter is float32 of itself, that name's ending is listed, with `=` if it is kept and `!` if it is not. No model gets elements.
Exits 77 (skipped) where transformers is not installed.
"""
import collections
import functools
import importlib
import re
import sys
from pathlib import Path

from case import check, finish
from tiny_models import auto, configured, families_of, held, torch, transformers

WHAT, FILE = sys.argv[2], Path(sys.argv[3])
HEAD = """// What transformers 5.24 keeps in float32 of families without a map of their own: made by tests/torch/kept_lists.py.
//   model_type, of those for any narrower dtype, and of those for float16 alone: pieces of names, or =ENDING, or !ENDING of names that are not kept
//   though they have a piece. An ending begins with a component, and * stands for a number.
"""
DTYPES = (torch.bfloat16, torch.float16)
KNOWN = set().union(*(families_of(f.read_text()) for f in (FILE.parent / "builtin").glob("*.map") if "\nclass " in f.read_text()))


def models():
    """{model_type: classes with its configuration}"""
    found = collections.defaultdict(list)
    for file in sorted(Path(transformers.__file__).parent.glob("models/*/modeling_*.py")):
        if re.search("modeling_(flax|tf)_", file.name):
            continue
        name = f"transformers.models.{file.parent.name}.{file.stem}"
        try:
            module = importlib.import_module(name)
        except ImportError:  # of a package that is not here
            continue
        for one in vars(module).values():
            if isinstance(one, type) and issubclass(one, transformers.PreTrainedModel) and one.__module__ == name:
                found[getattr(getattr(one, "config_class", None), "model_type", "")].append(one)
    found.pop("", None)
    for names in (auto.MODEL_MAPPING_NAMES, auto.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES):
        for model_type, one in names.items():  # of another type's classes
            if model_type not in found and isinstance(one, str):
                found[model_type] = [c for c in [getattr(transformers, one, None)] if isinstance(c, type) and issubclass(c, transformers.PreTrainedModel)]
    return found


MODELS = models()


def pieces_of(model):
    """Of a model or its class: for any narrower dtype, and for float16."""
    return set(model._keep_in_fp32_modules_strict or ()), set(model._keep_in_fp32_modules or ())


def all_pieces_of(model_type):
    """Those of any of its classes."""
    return tuple(set().union(*of) for of in zip((set(), set()), *map(pieces_of, MODELS.get(model_type, ()))))


def template(name):
    return re.sub(r"(?<![^.])\d+(?![^.])", "*", name)


def configurations(model_type):
    """A tiny one; else that of the family, where it may have something to keep: what is built of it has no elements."""
    try:
        yield configured(model_type, {})
    except Exception:
        pass
    if any(all_pieces_of(model_type)):
        try:
            yield transformers.CONFIG_MAPPING[model_type]()
        except Exception:
            pass


def facts_of(model_type):
    """Of all models that can be built: {template of a name: whether it is kept, for each of DTYPES}, of published names before those in memory; the
    pieces of these models; and the types of models within."""
    memory, published, within, pieces = {}, {}, set(), (set(), set())
    for one in MODELS.get(model_type, ()):
        for config in configurations(model_type):
            try:
                all_held = [held(one, config, dtype) for dtype in DTYPES]
            except Exception:  # of a base class, or a size that does not go with the others
                continue
            for names, at in ((memory, 1), (published, 2)):
                for key in all_held[0][at]:
                    names.setdefault(template(key), tuple(of[at][key].dtype == torch.float32 for of in all_held))
            within |= types_in(config.to_dict())
            for all_its, its in zip(pieces, pieces_of(all_held[0][0])):
                all_its |= {p for p in its if any(p in name for name in memory)}
            break
    return {**memory, **published}, pieces, within - {model_type}


def types_in(config):
    of = {config["model_type"]} if config.get("model_type") else set()
    return of.union(*(types_in(v) for v in config.values() if isinstance(v, dict)))


def has_ending(name, ending):
    return name == ending or name.endswith("." + ending)


def ending_of(name, names, dtype):
    """What follows its last number, where all with this ending are alike."""
    for ending in dict.fromkeys((name.split("*.")[-1], name)):
        if all(kept[dtype] == names[name][dtype] for other, kept in names.items() if has_ending(other, ending)):
            return ending
    raise ValueError(f"{name}: others are called so")


def modules_of(odd, names, dtype):
    """Modules all of whose parameters are kept: as pieces, where one has many of the names."""
    found = set()
    for piece, count in collections.Counter(f"{c}." for name in odd for c in name.split(".")[:-1] if c != "*").most_common():
        if count >= 5 and not any(f in name for f in found for name in odd if piece in name) and all(kept[dtype] for name, kept in names.items() if piece in name):
            found.add(piece)
    return found


@functools.cache
def made_for(model_type):
    """The words of its line: for any narrower dtype, and for float16 alone."""
    if model_type in KNOWN:
        return set(), set()
    if model_type not in transformers.CONFIG_MAPPING:
        return all_pieces_of(model_type)
    names, pieces, within = facts_of(model_type)
    of_others = [made_for(t) for t in sorted(within)]
    words = [own | (its - set().union(*(o[0] for o in of_others), *(o[at] for o in of_others)))
             for at, (own, its) in enumerate(zip(all_pieces_of(model_type), pieces))]  # fmt: skip
    for dtype in range(2):
        seen = set().union(*(of[at] for of in [words, *of_others] for at in range(dtype + 1)))
        odd = [name for name in sorted(names) if keeps(seen, name) != names[name][dtype]]
        words[dtype] |= modules_of([name for name in odd if names[name][dtype]], names, dtype)
        for name in odd:
            if keeps(seen | words[dtype], name) != names[name][dtype]:
                words[dtype].add(("=" if names[name][dtype] else "!") + ending_of(name, names, dtype))
    return words[0], words[1] - words[0]


def keeps(words, name):
    if any(w[0] == "=" and has_ending(name, w[1:]) for w in words):
        return True
    return not any(w[0] == "!" and has_ending(name, w[1:]) for w in words) and any(w in name for w in words)


def made():
    lines = []
    for model_type in sorted(MODELS):
        always, half = made_for(model_type)
        if always | half:
            lines.append(f'DCPCTL_KEPT("{model_type}", "{" ".join(sorted(always))}", "{" ".join(sorted(half))}")')
    return HEAD + "\n".join(lines) + "\n"


if WHAT == "make":
    FILE.write_text(made())
else:
    check(made() == FILE.read_text(), f"{FILE}: `kept_lists.py DCPCTL make {FILE}` writes another text")
    finish()
