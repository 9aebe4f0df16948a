"""Boxes that several ranks load: one of these ranks reads each, and gives it to the others."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator, Sequence
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist

from . import _errors

Box = Any  # what is read, and as which dtype, or the key of an object: the same on each rank that loads it


# Before torch 2.15, a group gets the name of one of the same ranks that was destroyed, and does not come about: groups are kept for the next load.
# After a failed one they stay as they are, since they may be out of step, and the next load makes others, which then get names of their own.
_KEEPS_GROUPS = tuple(int(n) for n in torch.__version__.split(".")[:2]) < (2, 15)
_kept: dict[Any, dist.ProcessGroup] = {}


class Replicas:
    """What each rank of a group loads, who reads it, and how it gets to the others.

    Every rank makes one and calls the same methods in the same order. An error of one rank is raised by all of them, by each method but give().
    """

    def __init__(self, group: dist.ProcessGroup | None, timeout: float | None) -> None:
        self._ranks: list[int] = dist.get_process_group_ranks(group if group is not None else dist.group.WORLD)
        self._timeout = None if timeout is None else timedelta(seconds=timeout)
        self._backend = dist.get_backend(group)
        self._groups: dict[tuple[int, ...], dist.ProcessGroup] = {}
        self._me = self._ranks.index(dist.get_rank())
        # Texts are exchanged by the CPU, so that an error arrives although a device does not answer.
        self._texts = self._made(self._ranks, "gloo")

    def __enter__(self) -> Replicas:
        return self

    def __exit__(self, why: type[BaseException] | None, *_: object) -> None:
        if not _KEEPS_GROUPS:
            for group in (self._texts, *self._groups.values()):
                dist.destroy_process_group(group)
        elif why is not None:
            _kept.clear()
        self._groups.clear()

    def _made(self, ranks: Sequence[int], backend: str) -> dist.ProcessGroup:
        for other in [key for key in _kept if key[0] is not dist.group.WORLD]:
            del _kept[other]  # of a world that is no more
        key = (dist.group.WORLD, tuple(ranks), backend, self._timeout)
        made: Any = _kept.get(key) or dist.new_group(list(ranks), timeout=self._timeout, backend=backend, use_local_synchronization=True)  # it has this rank
        if _KEEPS_GROUPS:
            _kept[key] = made
        return made  # type: ignore[no-any-return]

    def on_all(self, work: Callable[[], Any]) -> list[Any]:
        """What `work` gives on each rank. If it fails on one, its error is raised by all."""
        error: BaseException | None = None
        value = None
        try:
            value = work()
        except BaseException as why:
            error = why
        told: list[Any] = [None] * len(self._ranks)
        dist.all_gather_object(told, (value, _portable(error)), group=self._texts)
        if error is not None:
            raise error
        for rank, (_value, other) in zip(self._ranks, told):
            if other is not None:
                if isinstance(other, _errors.Error) and other.rank is None:
                    other.rank = rank
                raise other
        return [value for value, _none in told]

    def share_out(self, wanted: Callable[[], dict[Box, int]]) -> dict[Box, tuple[int, ...]]:
        """`wanted` says how many bytes each box has. Of those that this rank and others want: who reads it, and then who gets it from the reader.

        The largest are dealt first, each to the one of its ranks that has the fewest bytes.
        """
        of_ranks = self.on_all(wanted)
        holders: dict[Box, list[int]] = {}
        for rank, boxes in enumerate(of_ranks):
            for box in boxes:
                holders.setdefault(box, []).append(rank)
        load = [sum(size for box, size in boxes.items() if len(holders[box]) == 1) for boxes in of_ranks]
        shared: dict[Box, tuple[int, ...]] = {}
        for box in sorted((b for b, ranks in holders.items() if len(ranks) > 1), key=lambda b: (-of_ranks[holders[b][0]][b], repr(b))):
            reader = min(holders[box], key=lambda rank: load[rank])
            load[reader] += of_ranks[reader][box]
            shared[box] = (reader, *(rank for rank in holders[box] if rank != reader))
        return {box: ranks for box, ranks in shared.items() if self._me in ranks}

    def reads(self, ranks: tuple[int, ...]) -> bool:
        return ranks[0] == self._me

    def device(self) -> torch.device:
        """Where tensors are given."""
        return torch.device("cuda", torch.cuda.current_device()) if self._backend == "nccl" else torch.device("cpu")

    def in_order(self, shared: dict[Box, tuple[int, ...]]) -> Iterator[tuple[tuple[int, ...], list[Box]]]:
        """The boxes that pass between the same ranks, in an order that is the same on each of these."""
        routes: dict[tuple[int, ...], list[Box]] = {}
        for box in sorted(shared, key=repr):
            routes.setdefault(shared[box], []).append(box)
        for ranks in sorted(routes, key=lambda r: (tuple(sorted(r)), r)):
            yield ranks, routes[ranks]

    def give(self, ranks: tuple[int, ...], buffer: torch.Tensor) -> None:
        """From the reader to the others."""
        members = tuple(sorted(ranks))
        if members not in self._groups:
            self._groups[members] = self._made([self._ranks[rank] for rank in members], self._backend)
        dist.broadcast(buffer, self._ranks[ranks[0]], group=self._groups[members])


def _portable(error: BaseException | None) -> BaseException | None:
    """What other ranks can raise."""
    if error is not None and not isinstance(error, Exception):
        return _errors.RankError(id="rank_failed", kind="rank", what="another rank was interrupted", got=type(error).__name__)
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:
        return RuntimeError(f"{type(error).__name__}: {error}")
    return error
