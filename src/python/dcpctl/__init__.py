"""PyTorch Distributed Checkpoints in Python: read tensors and objects of any checkpoint that dcpctl reads, and run its commands.

    ck = dcpctl.open("run", step="latest")
    ck["model.norm.weight"].torch()

`dcpctl.torch` has a reader and a writer for torch.distributed.checkpoint. Neither torch nor numpy is imported before one of their arrays is asked for.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ._checkpoint import Checkpoint as Checkpoint, Chunk as Chunk, Object as Object, Tensor as Tensor, open as open
    from ._commands import (
        cast as cast, consolidate as consolidate, convert as convert, diff as diff, edit as edit, inspect as inspect, list as list, maps as maps,
        prune as prune, reshard as reshard, verify as verify,
    )
    from ._errors import (
        Error as Error, InputError as InputError, LackingError as LackingError, MachineError as MachineError, MissingKey as MissingKey,
        RankError as RankError, UsageError as UsageError,
    )

    __version__: str

# Where a name is found when it is first asked for: importing dcpctl imports nothing.
_HOMES = {
    "_checkpoint": ("Checkpoint", "Chunk", "Object", "Tensor", "open"),
    "_commands": ("cast", "consolidate", "convert", "diff", "edit", "inspect", "list", "maps", "prune", "reshard", "verify"),
    "_errors": ("Error", "InputError", "LackingError", "MachineError", "MissingKey", "RankError", "UsageError"),
}
_HOME_OF = {_name: _home for _home, _names in _HOMES.items() for _name in _names}
__all__ = [*_HOME_OF, "__version__"]


def __getattr__(name: str) -> object:
    if name == "__version__":
        from ._abi import lib

        value: object = lib.dcpctl_version().decode()
    elif name in _HOME_OF:
        from importlib import import_module

        value = getattr(import_module(f"{__name__}.{_HOME_OF[name]}"), name)
    else:
        raise AttributeError(f"module 'dcpctl' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> object:
    return sorted({*globals(), *__all__})
