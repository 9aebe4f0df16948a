#!/usr/bin/env python3
"""What transformers keeps in float32 of the families that no built-in map is for.

    kept_lists.py DCPCTL check FILE    FILE (src/maps/kept.def) is what it is made of now
    kept_lists.py DCPCTL make FILE     writes it

Exits 77 (skipped) where transformers is not installed.
"""
import collections
import importlib
import sys
from pathlib import Path

from case import check, finish
from tiny_models import families_of, transformers

WHAT, FILE = sys.argv[2], Path(sys.argv[3])
HEAD = """// What transformers 5.24 keeps in float32 of families without a map of their own: made by tests/torch/kept_lists.py.
//   model_type, pieces of names: of those for any narrower dtype, and of those for float16 alone
"""


def made():
    known = set().union(*(families_of(f.read_text()) for f in (FILE.parent / "builtin").glob("*.map") if "\nclass " in f.read_text()))
    kept = collections.defaultdict(lambda: (set(), set()))
    for file in sorted(Path(transformers.__file__).parent.glob("models/*/modeling_*.py")):
        if "_keep_in_fp32_modules" not in file.read_text():
            continue
        name = f"transformers.models.{file.parent.name}.{file.stem}"
        for one in vars(importlib.import_module(name)).values():
            model_type = getattr(getattr(one, "config_class", None), "model_type", "")
            if isinstance(one, type) and issubclass(one, transformers.PreTrainedModel) and one.__module__ == name and model_type and model_type not in known:
                for pieces, its in zip(kept[model_type], (one._keep_in_fp32_modules_strict, one._keep_in_fp32_modules)):
                    pieces |= set(its or ())
    lines = [f'DCPCTL_KEPT("{t}", "{" ".join(sorted(always))}", "{" ".join(sorted(half - always))}")' for t, (always, half) in sorted(kept.items()) if always | half]
    return HEAD + "\n".join(lines) + "\n"


if WHAT == "make":
    FILE.write_text(made())
else:
    check(made() == FILE.read_text(), f"{FILE}: `kept_lists.py DCPCTL make {FILE}` writes another text")
    finish()
