"""dcpctl.torch.Reader gives what FileSystemReader gives, in one process: every checkpoint of tests/data and of the corpus.

    reader.py
"""
import contextlib
import io
import logging
import sys

import torch
import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint import FileSystemReader
from torch.distributed.checkpoint.default_planner import DefaultLoadPlanner, _EmptyStateDictLoadPlanner

from dcpctl.torch import Reader
from equal import ROOT, checkpoints, differences, whole

logging.getLogger("torch.distributed.checkpoint").setLevel(logging.CRITICAL)
logging.getLogger("torch.distributed").setLevel(logging.CRITICAL)


def try_all():
    equal, only_ours, failures = 0, [], []
    for path in checkpoints():
        for flat in (False, True):
            try:
                expected = whole(FileSystemReader(path), flatten_state_dict=not flat)
            except BaseException as why:
                expected = why
            try:
                got = whole(Reader(path), flatten_state_dict=not flat)
            except BaseException as why:
                if not isinstance(expected, BaseException):
                    failures.append(f"{path}: {type(why).__name__}: {str(why)[-600:]}")
                continue
            if isinstance(expected, BaseException):
                only_ours.append(str(path))
                continue
            found = list(differences(expected, got))
            failures += [f"{path} (flat: {flat}): {f}" for f in found[:3]]
            equal += not found
    return equal, only_ours, failures


if __name__ == "__main__":
    equal, ours, failures = try_all()
    print("\n".join(failures))
    print(equal, "equal; only ours:", ours)
    sys.exit(bool(failures))
