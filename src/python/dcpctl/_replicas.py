"""Boxes that several ranks load: one of these ranks reads each, and gives it to the others."""

from __future__ import annotations

import pickle
import uuid
from collections.abc import Callable, Iterator
from ctypes import string_at
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist

from . import _errors

Box = Any  # what is read, and as which dtype, or the key of an object: the same on each rank that loads it

_TIMEOUT = timedelta(minutes=30)  # torch's own


class Replicas:
    """What each rank of a group loads, who reads it, and how it gets to the others.

    Every rank makes one and calls the same methods in the same order. An error of one rank is raised by all of them, by each method but give().
    """

    def __init__(self, group: dist.ProcessGroup | None, timeout: float | None) -> None:
        group = group if group is not None else dist.group.WORLD
        self._ranks: list[int] = dist.get_process_group_ranks(group)
        self._me = self._ranks.index(dist.get_rank())
        # Not one of dist.new_group(): that counts the groups of a process and takes their names from the count, so it hangs where a rank has made other
        # groups than the rest. Texts are exchanged by the CPU, so that an error arrives although a device does not answer.
        name = [uuid.uuid4().hex]
        dist.broadcast_object_list(name, self._ranks[0], group=group)
        c10d: Any = dist.distributed_c10d
        store = c10d.PrefixStore(f"dcpctl/{name[0]}", c10d._get_default_store())
        self._texts: Any = c10d.ProcessGroupGloo(store, self._me, len(self._ranks), _TIMEOUT if timeout is None else timedelta(seconds=timeout))
        self._tensors: Any = group if dist.get_backend(group) == "nccl" else self._texts

    def __enter__(self) -> Replicas:
        return self

    def __exit__(self, *_why: object) -> None:
        del self._tensors, self._texts  # so that ranks that still wait for this one hear that it is gone

    def on_all(self, work: Callable[[], Any]) -> list[Any]:
        """What `work` gives on each rank. If it fails on one, its error is raised by all."""
        error: BaseException | None = None
        value = None
        try:
            value = work()
        except BaseException as why:
            error = why
        told = self._gathered((value, _portable(error)))
        if error is not None:
            raise error
        for rank, (_value, other) in zip(self._ranks, told):
            if other is not None:
                if isinstance(other, _errors.Error) and other.rank is None:
                    other.rank = rank
                raise other
        return [value for value, _none in told]

    def _gathered(self, value: object) -> list[Any]:
        data = pickle.dumps(value)
        longest = int(max(self._gather(torch.tensor(len(data)))))
        padded = torch.frombuffer(bytearray(data.ljust(longest)), dtype=torch.uint8)
        return [pickle.loads(string_at(t.data_ptr(), longest)) for t in self._gather(padded)]

    def _gather(self, tensor: torch.Tensor) -> list[torch.Tensor]:
        all_of_them = [torch.empty_like(tensor) for _rank in self._ranks]
        self._texts.allgather([all_of_them], [tensor]).wait()
        return all_of_them

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
        return torch.device("cpu") if self._tensors is self._texts else torch.device("cuda", torch.cuda.current_device())

    def in_order(self, shared: dict[Box, tuple[int, ...]]) -> Iterator[tuple[tuple[int, ...], list[Box]]]:
        """The boxes that pass between the same ranks, in an order that is the same on each of these."""
        routes: dict[tuple[int, ...], list[Box]] = {}
        for box in sorted(shared, key=repr):
            routes.setdefault(shared[box], []).append(box)
        for ranks in sorted(routes, key=lambda r: (tuple(sorted(r)), r)):
            yield ranks, routes[ranks]

    def give(self, ranks: tuple[int, ...], buffer: torch.Tensor) -> None:
        """From the reader to the others: each rank of a few passes it on to two."""
        if len(ranks) == len(self._ranks):
            self._tensors.broadcast(buffer, ranks[0]).wait()
            return
        at = ranks.index(self._me)
        if at:
            self._tensors.recv([buffer], ranks[(at - 1) // 2], 0).wait()
        for sent in [self._tensors.send([buffer], to, 0) for to in ranks[2 * at + 1 : 2 * at + 3]]:
            sent.wait()


def _portable(error: BaseException | None) -> BaseException | None:
    """What other ranks can raise."""
    if error is not None and not isinstance(error, Exception):
        return _errors.RankError(id="rank_failed", kind="rank", what="another rank was interrupted", got=type(error).__name__)
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:
        return RuntimeError(f"{type(error).__name__}: {error}")
    return error
