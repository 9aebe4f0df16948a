"""A reader and a writer for torch.distributed.checkpoint.

    dcp.load(state, storage_reader=Reader("step-1000"))
    dcp.save(state, storage_writer=Writer("step-2000"))

The planner is torch's, the reading and the writing are dcpctl's: several threads outside the GIL, every CRC compared, nothing unpickled but the objects
that the planner itself loads.
"""

from __future__ import annotations

import contextlib
import ctypes
import dataclasses
import io
import itertools
import logging
import math
import os
import pickle
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed.checkpoint import filesystem as _filesystem
from torch.distributed.checkpoint.filesystem import _StorageInfo
from torch.distributed.checkpoint.metadata import (
    BytesStorageMetadata,
    ChunkStorageMetadata,
    Metadata,
    MetadataIndex,
    StorageMeta,
    TensorProperties,
    TensorStorageMetadata,
)
from torch.distributed.checkpoint.planner import LoadItemType, LoadPlan, LoadPlanner, ReadItem, SavePlan, SavePlanner, WriteItem
from torch.distributed.checkpoint.stateful import Stateful
from torch.distributed.checkpoint.storage import StorageReader, StorageWriter, WriteResult
from torch.futures import Future
from torch.utils._pytree import tree_map_only

from . import _abi, _errors, _jobs, _memory
from ._checkpoint import Checkpoint, Parts, _Core, open as _open, threads_of
from ._replicas import Replicas

__all__ = ["Reader", "Writer", "async_save", "load", "save"]

log = logging.getLogger(__name__)

CURRENT_DCP_VERSION = getattr(_filesystem, "CURRENT_DCP_VERSION", None)  # torch before 2.9 has none

_STILL_S = 60
_PIECE = 16 << 20  # bytes of each of the two buffers that bytes go through if they cannot go straight into their tensor


# ---- metadata that becomes Python when it is touched

class _Lazy(dict):  # type: ignore[type-arg]
    """A dict whose values are made when they are touched: one by one, or all by what looks at all."""

    def __init__(self, index: Mapping[Any, int], make: Callable[[int], Any], make_all: Callable[[], Iterable[Any]]) -> None:
        super().__init__()
        self._index: Mapping[Any, int] | None = index
        self._make = make
        self._make_all = make_all

    def _fill(self) -> None:
        if self._index is None:
            return
        index, self._index = self._index, None
        own = dict(super().items())
        super().clear()
        for key, value in zip(index, self._make_all()):
            super().__setitem__(key, own.get(key, value))

    def __missing__(self, key: Any) -> Any:
        if self._index is None or key not in self._index:
            raise KeyError(key)
        value = self._make(self._index[key])
        super().__setitem__(key, value)
        return value

    def __contains__(self, key: object) -> bool:
        return super().__contains__(key) or (self._index is not None and key in self._index)

    def __iter__(self) -> Iterator[Any]:
        return iter(self._index) if self._index is not None else super().__iter__()

    def __len__(self) -> int:
        return len(self._index) if self._index is not None else super().__len__()

    def keys(self) -> Any:
        return self._index.keys() if self._index is not None else super().keys()

    def get(self, key: Any, default: Any = None) -> Any:
        return self[key] if key in self else default

    def __setitem__(self, key: Any, value: Any) -> None:
        if self._index is not None and key not in self._index:
            self._fill()
        super().__setitem__(key, value)

    def __reduce__(self) -> Any:
        self._fill()
        return dict, (dict(super().items()),)

    def __reduce_ex__(self, _protocol: Any) -> Any:
        return self.__reduce__()


def _filled(name: str) -> Callable[..., Any]:
    plain = getattr(dict, name)

    def method(self: _Lazy, *arguments: Any, **named: Any) -> Any:
        for one in (self, *arguments):
            if isinstance(one, _Lazy):  # dict's own methods see only what is there
                one._fill()
        return plain(self, *arguments, **named)

    method.__name__ = name
    return method


for _name in (
    "__delitem__", "__eq__", "__ior__", "__ne__", "__or__", "__repr__", "__reversed__", "__ror__", "clear", "copy", "items", "pop", "popitem", "setdefault",
    "update", "values",
):
    setattr(_Lazy, _name, _filled(_name))


class _Tensor(TensorStorageMetadata):
    """Its chunks are made when they are asked for."""

    _make: Callable[[], list[ChunkStorageMetadata]]

    def __init__(self, properties: TensorProperties, size: torch.Size, chunks: list[ChunkStorageMetadata] | Callable[[], list[ChunkStorageMetadata]]) -> None:
        self.properties = properties
        self.size = size
        if callable(chunks):
            self._make = chunks
        else:
            self.chunks = chunks

    def __getattr__(self, name: str) -> Any:  # of what is not there yet
        if name != "chunks" or "_make" not in self.__dict__:
            raise AttributeError(name)
        self.chunks = self._make()
        del self._make
        return self.chunks

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TensorStorageMetadata) and (self.properties, self.size, self.chunks) == (other.properties, other.size, other.chunks)

    __hash__ = None  # type: ignore[assignment]

    def __reduce__(self) -> Any:
        return TensorStorageMetadata, (self.properties, self.size, self.chunks)


class _Metadata(Metadata):
    """Of a checkpoint that is open. `planner_data` and `storage_data` are made when they are asked for, and so is whatever they hold."""

    def __new__(cls, *core: _Core, **fields: Any) -> Any:
        return Metadata(**fields) if fields else super().__new__(cls)  # dataclasses.replace() makes another one of fields

    def __init__(self, core: _Core) -> None:
        index = core.all_keys()
        count = len(index)
        self._core = core
        self._made: dict[str, Any] = {
            "state_dict_metadata": _Lazy(index, lambda n: _entry_metadata(core, n, next(core.entries(n, 1))), lambda: _all_metadata(core, count)),
            "storage_meta": StorageMeta(checkpoint_id=core.path),
            "version": None,
        }

    def __reduce__(self) -> Any:
        return Metadata, tuple(getattr(self, field.name) for field in dataclasses.fields(Metadata))

    def __reduce_ex__(self, _protocol: Any) -> Any:
        return self.__reduce__()


def _make_planner_data(core: _Core) -> Any:
    index = core.all_keys()
    return _Lazy(index, lambda n: _path(core, n, next(core.entries(n, 1))[5]), lambda: [_path(core, n, e[5]) for n, e in enumerate(core.entries(0, len(index)))])


def _make_storage_data(core: _Core) -> dict[MetadataIndex, _StorageInfo]:
    made = {}
    for n, (key, _dtype, shape, _size, count, _parts, _grad, is_object) in enumerate(core.entries(0, core.facts().entries)):
        for chunk in core.chunks(n, len(shape), 0, count):
            made[MetadataIndex(key) if is_object else MetadataIndex(key, chunk.offsets)] = _StorageInfo(chunk.file, chunk.offset, chunk.length)
    return made


_MAKERS: dict[str, Callable[[_Core], Any]] = {"planner_data": _make_planner_data, "storage_data": _make_storage_data}


def _field(name: str) -> property:
    def get(self: _Metadata) -> Any:
        if name not in self._made:
            self._made[name] = _MAKERS[name](self._core)
        return self._made[name]

    def put(self: _Metadata, value: Any) -> None:
        self._made[name] = value

    return property(get, put)


for _name in ("state_dict_metadata", "planner_data", "storage_data", "storage_meta", "version"):
    setattr(_Metadata, _name, _field(_name))


class _Failed(Metadata):
    """In place of metadata that cannot be read. dcp.load would turn an error of read_metadata() into an AssertionError: it comes when this is touched."""

    def __init__(self, error: _errors.Error) -> None:
        self.__dict__["error"] = error


def _fail(self: _Failed) -> Any:
    raise self.__dict__["error"]


for _name in ("state_dict_metadata", "planner_data", "storage_data"):
    setattr(_Failed, _name, property(_fail))


def _path(core: _Core, entry: int, parts: int) -> tuple[str | int, ...]:
    return tuple(name for name, _in_list in core.steps(entry, parts))


def _entry_metadata(core: _Core, entry: int, facts: tuple[Any, ...]) -> TensorStorageMetadata | BytesStorageMetadata:
    _key, dtype, shape, _size, count, _parts, grad, is_object = facts
    if is_object:
        return BytesStorageMetadata()
    properties = TensorProperties(dtype=_memory.torch_dtype(dtype), requires_grad=grad)  # type: ignore[arg-type]
    return _Tensor(properties, torch.Size(shape), lambda: _chunks(core, entry, len(shape), count))


def _chunks(core: _Core, entry: int, rank: int, count: int) -> list[ChunkStorageMetadata]:
    return [ChunkStorageMetadata(torch.Size(c.offsets), torch.Size(c.sizes)) for c in core.chunks(entry, rank, 0, count)]


def _all_metadata(core: _Core, count: int) -> Iterator[TensorStorageMetadata | BytesStorageMetadata]:
    return (_entry_metadata(core, n, facts) for n, facts in enumerate(core.entries(0, count)))


# ---- reading

_FLOATS = {*_memory.FLOATS}


class _Read:
    """A ReadItem: the box of which tensor, and where it goes."""

    __slots__ = ("counts", "dtype", "entry", "item", "starts", "target")

    def __init__(self, item: ReadItem, entry: int, dtype: str, starts: list[int], target: torch.Tensor) -> None:
        self.item = item
        self.entry = entry
        self.dtype = dtype  # of the checkpoint
        self.starts = starts
        self.counts = list(item.lengths)
        self.target = target

    def is_direct(self) -> bool:
        """The library writes into the target's memory."""
        t = self.target
        if t.device.type != "cpu" or t.layout is not torch.strided or t.is_quantized or t.is_conj() or t.is_neg() or type(t) not in (torch.Tensor, torch.nn.Parameter):
            return False
        name = str(t.dtype)[6:]
        return name == self.dtype or (name in _FLOATS and self.dtype in _FLOATS)

    def box(self) -> Any:
        """What another rank reads as well if its is equal."""
        return self.item.storage_index.fqn, tuple(self.starts), tuple(self.counts), str(self.target.dtype)

    def extent(self) -> tuple[int, int]:
        """Of memory, in bytes."""
        t, item = self.target, self.target.element_size()
        return _memory.extent(t.data_ptr(), t.shape, [s * item for s in t.stride()], item)


class Reader(StorageReader):
    """Reads for dcp.load what dcpctl reads: a DCP folder, a step of a run, a safetensors file, a Hugging Face folder, files of ranks, ...

    With `map` it has the names of the other side: a run of torchtitan is loaded into a model of transformers. Values are those of FileSystemReader. A load
    that narrows dtypes warns once; with `strict_dtype` another dtype is an error before anything is read. `objects="checked"` refuses an object whose
    loading would call what torch.load(weights_only=True) refuses.

    With `share="replicas"`, a box that several ranks of `process_group` (as given to dcp.load) load is read once, by one of them, and sent to the others.
    Boxes are shared that are equal, not those that overlap; an error of one rank is what all of them raise; a rank that does not answer is waited for `timeout` seconds (default: half an hour).

    The planner's resolve_tensor() is called for all items before the first byte is read, and commit_tensor() after the last.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        step: int | str | None = None,
        map: str | os.PathLike[str] | None = None,
        map_to: str | os.PathLike[str] | None = None,
        map_config: str | os.PathLike[str] | None = None,
        root: str | None = None,
        rename: str | Iterable[str] = (),
        threads: int | None = None,
        strict_dtype: bool = False,
        objects: str = "torch",
        share: str | None = None,
        process_group: dist.ProcessGroup | None = None,
        timeout: float | None = None,
        progress: _jobs.Progress = None,
    ) -> None:
        super().__init__()
        if share not in (None, "replicas"):
            raise _errors.usage("share", "share= is no such word", got=str(share), expected="replicas or None")
        if objects not in ("torch", "checked"):
            raise _errors.usage("objects", "objects= is no such word", got=str(objects), expected="torch or checked")
        self.path = path
        self._asked: dict[str, Any] = {
            "step": step, "map": map, "map_to": map_to, "map_config": map_config, "root": root, "rename": rename if isinstance(rename, str) else list(rename), "threads": threads,
        }
        self._strict_dtype = strict_dtype
        self._objects = objects
        self._share = share
        self._process_group = process_group
        self._timeout = timeout
        self._progress = progress
        self._checkpoint: Checkpoint | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_checkpoint": None, "_process_group": None}

    @property
    def checkpoint_id(self) -> str | os.PathLike[str]:
        return self.path

    @classmethod
    def validate_checkpoint_id(cls, checkpoint_id: str | os.PathLike[str]) -> bool:
        return os.path.exists(checkpoint_id)

    def reset(self, checkpoint_id: str | os.PathLike[str] | None = None) -> None:
        if checkpoint_id:
            self.path = checkpoint_id
        self._checkpoint = None

    def read_metadata(self, *_arguments: Any, **_named: Any) -> Metadata:
        # The one before goes on living in the metadata that was made of it.
        self._checkpoint = None
        try:
            self._checkpoint = self._opened()
        except _errors.Error as error:
            return _Failed(error)
        return _Metadata(self._checkpoint._core)

    def _opened(self) -> Checkpoint:
        return _open(self.path, **self._asked)

    def set_up_storage_reader(self, metadata: Metadata, is_coordinator: bool, *_arguments: Any, **kwargs: Any) -> None:
        if isinstance(metadata, _Failed):
            _fail(metadata)
        if self._checkpoint is None:
            self._checkpoint = self._opened()

    def prepare_local_plan(self, plan: LoadPlan) -> LoadPlan:
        return plan

    def prepare_global_plan(self, plans: list[LoadPlan]) -> list[LoadPlan]:
        return plans

    def read_data(self, plan: LoadPlan, planner: LoadPlanner) -> Future[None]:
        if self._checkpoint is None:
            self._checkpoint = self._opened()
        core = self._checkpoint._core
        if self._share and dist.is_available() and dist.is_initialized() and dist.get_world_size(self._process_group) > 1:
            reads, objects = self._read_shared(core, plan, planner)
        else:
            reads, entries = self._wanted(core, plan, planner)
            self._read(core, reads)
            objects = core.stored_objects([*entries.values()])
        for r in reads:
            planner.commit_tensor(r.item, r.target)
        for item, data in zip((i for i in plan.items if i.type == LoadItemType.BYTE_IO), objects):
            planner.load_bytes(item, io.BytesIO(data))
        done: Future[None] = Future()
        done.set_result(None)
        return done

    def _wanted(self, core: _Core, plan: LoadPlan, planner: LoadPlanner) -> tuple[list[_Read], dict[int, int]]:
        """What goes into tensors, and the entries of objects, by their place in the plan."""
        entries = {n: self._entry(core, item) for n, item in enumerate(plan.items) if item.type == LoadItemType.BYTE_IO}
        if self._objects == "checked" and entries:
            _check_objects(core, [plan.items[n] for n in entries], [*entries.values()])
        reads = self._reads(core, [item for item in plan.items if item.type != LoadItemType.BYTE_IO], planner)
        _refuse_shared(reads)
        self._look_at_dtypes(reads)
        return reads, entries

    def _read(self, core: _Core, reads: list[_Read]) -> None:
        for group in _disjoint([r for r in reads if r.is_direct()]):
            parts = Parts()
            for r in group:
                item = r.target.element_size()
                name = str(r.target.dtype)[6:]
                strides = None if r.target.is_contiguous() else [s * item for s in r.target.stride()]
                parts.add(r.entry, r.target.data_ptr(), starts=r.starts, counts=r.counts, strides=strides, dtype=None if name == r.dtype else name, keep=r.target)
            job = core.start_read(parts)
            core.finish(job, self._progress, _Watch(core, group))
        _read_through(core, [r for r in reads if not r.is_direct()])

    def _read_shared(self, core: _Core, plan: LoadPlan, planner: LoadPlanner) -> tuple[list[_Read], list[bytes]]:
        """The same, but what several ranks load is read by one of them. No rank gives anything before all have read their part."""
        wanted: list[tuple[list[_Read], dict[int, int]]] = []

        def boxes() -> dict[Any, int]:
            wanted.append(self._wanted(core, plan, planner))
            reads, entries = wanted[0]
            sizes = {r.box(): r.target.nbytes for r in reads}
            return {**sizes, **{plan.items[n].storage_index.fqn: next(core.entries(e, 1))[3] for n, e in entries.items()}}

        with Replicas(self._process_group, self._timeout) as replicas:
            shared = replicas.share_out(boxes)
            reads, entries = wanted[0]
            given: dict[str, bytes] = {}

            def mine(box: Any) -> bool:
                return box not in shared or replicas.reads(shared[box])

            def read() -> dict[str, bytes]:
                self._read(core, [r for r in reads if mine(r.box())])
                own = {plan.items[n].storage_index.fqn: e for n, e in entries.items()}
                own = {fqn: e for fqn, e in own.items() if mine(fqn)}
                given.update(zip(own, core.stored_objects([*own.values()])))
                return {fqn: data for fqn, data in given.items() if fqn in shared}

            for objects in replicas.on_all(read):
                given.update(objects)
            _give(replicas, shared, reads)
        return reads, [given[plan.items[n].storage_index.fqn] for n in entries]

    def _entry(self, core: _Core, item: ReadItem) -> int:
        entry = core.find(item.storage_index.fqn)
        if entry is None:
            raise _errors.MissingKey(id="missing_key", kind="usage", what="there is no such key", key=item.storage_index.fqn, path=core.path)
        return entry

    def _reads(self, core: _Core, items: list[ReadItem], planner: LoadPlanner) -> list[_Read]:
        reads = []
        known: dict[str, tuple[int, tuple[Any, ...]]] = {}
        for item in items:
            index = item.storage_index
            if index.fqn not in known:
                entry = self._entry(core, item)
                known[index.fqn] = (entry, next(core.entries(entry, 1)))
            entry, facts = known[index.fqn]
            offset = tuple(index.offset) if index.offset is not None else core.chunks(entry, len(facts[2]), index.index or 0, 1)[0].offsets
            target = planner.resolve_tensor(item).detach()
            if tuple(target.shape) != tuple(item.lengths):
                raise _errors.usage("destination", "a tensor to load into has another shape", key=index.fqn, got=str(list(target.shape)), expected=str(list(item.lengths)))
            reads.append(_Read(item, entry, facts[1], [a + b for a, b in zip(offset, item.storage_offsets)], target))
        return reads

    def _look_at_dtypes(self, reads: list[_Read]) -> None:
        narrowed = set()
        for r in reads:
            name = str(r.target.dtype)[6:]
            if name == r.dtype:
                continue
            if self._strict_dtype:
                raise _errors.usage("strict_dtype", "the checkpoint has another dtype than the tensor that it is loaded into", key=r.item.storage_index.fqn, got=r.dtype, expected=name)
            if _narrows(getattr(torch, r.dtype), r.target.dtype):
                narrowed.add(r.item.storage_index.fqn)
        if narrowed:
            warnings.warn(f"{len(narrowed)} tensors are loaded into a narrower dtype than the checkpoint has, such as {min(narrowed)}", stacklevel=3)


def _refuse_shared(reads: list[_Read]) -> None:
    """Elements of one tensor that share memory, also where several items are read into it."""
    places: dict[tuple[str, int], Sequence[int]] = {}
    for r in reads:
        t, index = r.target, r.item.dest_index
        is_shared = t.layout is torch.strided and _memory.overlap(t.shape, t.stride(), 1)
        if is_shared or t.numel() and r.is_direct() and places.setdefault((index.fqn, t.data_ptr()), r.item.dest_offsets) != r.item.dest_offsets:
            raise _errors.usage("destination", "a tensor to load into has several elements in one place", key=index.fqn, got=f"strides {list(t.stride())}", expected="memory for each element")


def _narrows(stored: torch.dtype, target: torch.dtype) -> bool:
    """Whether a value can be lost. Of dtypes that torch says too little about: yes."""
    if torch.bool in (stored, target):
        return stored != torch.bool
    if stored.is_complex and not target.is_complex or _is_float(stored) and not _is_float(target):
        return True
    try:
        limits: list[Any] = [torch.finfo(dtype) if _is_float(dtype) else torch.iinfo(dtype) for dtype in (stored, target)]
    except (NotImplementedError, TypeError):
        return True
    have, room = limits
    if not _is_float(target):
        return bool(have.min < room.min or have.max > room.max)
    if not _is_float(stored):
        return int(have.max).bit_length() > _bits(room) or bool(have.max > room.max)
    return _bits(have) > _bits(room) or bool(have.max > room.max or have.smallest_normal * have.eps < room.smallest_normal * room.eps)


def _is_float(dtype: torch.dtype) -> bool:
    return dtype.is_floating_point or dtype.is_complex


def _bits(floats: torch.finfo) -> int:
    """Of a significand."""
    return round(1 - math.log2(floats.eps))


def _check_objects(core: _Core, items: list[ReadItem], entries: list[int]) -> None:
    for item, told in zip(items, core.describe_all(entries)):
        if told.get("refused"):
            raise _errors.InputError(
                id="unsafe_object", kind="input", what="loading the object would call what torch.load(weights_only=True) refuses", key=item.storage_index.fqn,
                path=core.path, got=", ".join(told["refused"]), hint='objects="torch" loads it',
            )


def _disjoint(reads: list[_Read]) -> list[list[_Read]]:
    """Groups of reads of which no two write to the same memory: tied weights are several tensors of a state dict in one memory.

    Parts of one tensor are apart; tensors are, where their memory is.
    """
    whole: dict[str, tuple[int, int]] = {}
    for r in reads:
        (first, last), fqn = r.extent(), r.item.dest_index.fqn
        have = whole.get(fqn, (first, last))
        whole[fqn] = (min(have[0], first), max(have[1], last))
    turn = {n: number for number, group in enumerate(_memory.in_turn([*whole.values()])) for n in group}
    turns = {fqn: turn[n] for n, fqn in enumerate(whole)}
    groups: list[list[_Read]] = [[] for _ in range(max(turns.values(), default=-1) + 1)]
    for r in reads:
        groups[turns[r.item.dest_index.fqn]].append(r)
    return groups


def _read_through(core: _Core, reads: list[_Read]) -> None:
    """By way of two buffers, one being read into while the other is copied: onto a device, or where torch converts what the library does not."""
    if not reads:
        return
    pinned = torch.cuda.is_available() and any(r.target.device.type == "cuda" for r in reads)
    buffers: list[torch.Tensor] = []
    copied: list[Any] = [None, None]
    running: tuple[_jobs.Job, list[_Piece], list[torch.Tensor], int] | None = None

    def copy_out(job: _jobs.Job, pieces: list[_Piece], sources: list[torch.Tensor], which: int) -> None:
        core.finish(job, None, _Watch(core, [piece.read for piece in pieces]))
        for piece, source in zip(pieces, sources):
            piece.of(piece.read.target).copy_(source, non_blocking=pinned)
        if pinned:
            copied[which] = torch.cuda.Event()  # type: ignore[no-untyped-call]
            copied[which].record()

    try:
        for number, batch in enumerate(_batches(reads, lambda r: _memory.item_bytes(r.dtype))):
            which = number % 2
            if copied[which] is not None:
                copied[which].synchronize()
            if which == len(buffers):
                buffers.append(torch.empty(_PIECE, dtype=torch.uint8, pin_memory=pinned))
            parts, sources = Parts(), []
            for piece in batch:
                source = piece.within(buffers[which], getattr(torch, piece.read.dtype))
                starts = [a + b for a, b in zip(piece.read.starts, piece.starts)]
                parts.add(piece.read.entry, source.data_ptr(), starts=starts, counts=piece.counts, keep=source)
                sources.append(source)
            before, running = running, (core.start_read(parts, 0), batch, sources, which)
            if before:
                copy_out(*before)
        if running:
            last, running = running, None
            copy_out(*last)
    finally:
        if running:
            core.jobs.discard(running[0])
            running[0].free()
        if pinned:
            torch.cuda.synchronize()


def _give(replicas: Replicas, shared: Mapping[Any, tuple[int, ...]], reads: list[_Read]) -> None:
    """Boxes from their readers to the other ranks that load them, by way of a buffer."""
    of_box: dict[Any, list[_Read]] = {}
    for r in reads:
        of_box.setdefault(r.box(), []).append(r)
    buffer = torch.empty(_PIECE, dtype=torch.uint8, device=replicas.device())
    for ranks, boxes in replicas.in_order({box: ranks for box, ranks in shared.items() if box in of_box}):
        for batch in _batches([of_box[box][0] for box in boxes], lambda r: r.target.element_size()):
            if replicas.reads(ranks):
                for piece in batch:
                    piece.within(buffer, piece.read.target.dtype).copy_(piece.of(piece.read.target))
            replicas.give(ranks, buffer[: batch[-1].at + batch[-1].size])
            if not replicas.reads(ranks):
                for piece in batch:
                    for r in of_box[piece.read.box()]:
                        piece.of(r.target).copy_(piece.within(buffer, r.target.dtype))


class _Piece:
    """A box of a read, and where it is in a buffer."""

    __slots__ = ("at", "counts", "read", "size", "starts")

    def __init__(self, read: _Read, starts: list[int], counts: list[int], at: int, size: int) -> None:
        self.read = read
        self.starts = starts  # within what is read
        self.counts = counts
        self.at = at
        self.size = size

    def of(self, tensor: torch.Tensor) -> torch.Tensor:
        return tensor[tuple(slice(a, a + n) for a, n in zip(self.starts, self.counts))] if self.counts != self.read.counts else tensor

    def within(self, buffer: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
        return buffer[self.at : self.at + self.size].view(dtype).view(self.counts)


def _batches(reads: list[_Read], item_of: Callable[[_Read], int]) -> Iterator[list[_Piece]]:
    """Pieces that fill a buffer at most."""
    batch: list[_Piece] = []
    filled = 0
    for r in reads:
        if 0 in r.counts:
            continue
        item = item_of(r)
        for starts, counts in _cut(r.counts, item):
            size = item * _memory.elements(counts)
            if batch and filled + size > _PIECE:
                yield batch
                batch, filled = [], 0
            batch.append(_Piece(r, starts, counts, filled, size))
            filled += -(-size // 64) * 64
    if batch:
        yield batch


def _cut(counts: list[int], item: int) -> Iterator[tuple[list[int], list[int]]]:
    """Starts and counts of boxes of at most _PIECE bytes: rows of the first dim, and parts of a row if that is larger."""
    row = item
    for dim in range(len(counts) - 1, -1, -1):
        if row * counts[dim] > _PIECE:
            break
        row *= counts[dim]
    else:
        yield [0] * len(counts), counts
        return
    step = _PIECE // row  # of `dim`; one at a time of those before
    for outer in itertools.product(*map(range, counts[:dim])):
        for first in range(0, counts[dim], step):
            yield [*outer, first, *[0] * (len(counts) - dim - 1)], [*[1] * dim, min(step, counts[dim] - first), *counts[dim + 1 :]]


class _Watch:
    """Logs a read that stands still: which rank, and about where."""

    def __init__(self, core: _Core, reads: list[_Read]) -> None:
        self._core = core
        self._reads = reads
        self._done = 0
        self._since = time.monotonic()
        self._next = self._since + _STILL_S

    def __call__(self, job: _jobs.Job) -> None:
        now = time.monotonic()
        done, total = job.progress()
        if done != self._done:
            self._done, self._since, self._next = done, now, now + _STILL_S
        elif now >= self._next:
            self._next = now + _STILL_S
            log.warning("rank %d: reading %s has stood still for %d s after %d of %d bytes, near %s", _rank(), self._core.path, now - self._since, done, total, self._near(done))

    def _near(self, done: int) -> str:
        places = []
        for r in self._reads:
            chunk = next((c for c in self._core.chunks(r.entry, len(r.starts), 0, next(self._core.entries(r.entry, 1))[4]) if tuple(c.offsets) == tuple(r.item.storage_index.offset or ())), None)
            if chunk:
                places.append((chunk.file, chunk.offset, r.item.storage_index.fqn, r.target.nbytes))
        for file, offset, key, size in sorted(places):
            if done < size:
                return f"{key} in {file} at byte {offset}"
            done -= size
        return "the end"


def _rank() -> int:
    return dist.get_rank() if dist.is_available() and dist.is_initialized() else 0


# ---- writing

_AHEAD = 64 << 20  # bytes of a job that writes; two are under way
_QUANTIZED = (torch.qint8, torch.quint8, torch.qint32, torch.quint4x2, torch.quint2x4)


class Writer(StorageWriter):
    """Writes for dcp.save and dcp.async_save one file a rank, by several threads outside the GIL.

    The folder appears under its name when `.metadata` is complete, or not at all. An existing checkpoint is an error, or with `replace` replaced then.
    torch 2.3 and later load it. Without `sync` it may not be on disk when saving returns.
    """

    def __init__(self, path: str | os.PathLike[str], *, threads: int | None = None, sync: bool = True, replace: bool = False) -> None:
        super().__init__()
        self.path = path
        self._threads = threads
        self._sync = sync
        self._replace = replace
        self._saving: int | None = None
        self._pid = os.getpid()

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_saving": None}

    def __del__(self) -> None:
        if getattr(self, "_saving", None):
            self._drop()

    def _drop(self) -> None:
        """Lets go of what was begun: if it was not finished, nothing of it stays."""
        saving, self._saving = self._saving, None
        if saving and os.getpid() == self._pid:
            _abi.lib.dcpctl_saving_free(saving)

    @property
    def checkpoint_id(self) -> str | os.PathLike[str]:
        return self.path

    @classmethod
    def validate_checkpoint_id(cls, checkpoint_id: str | os.PathLike[str]) -> bool:
        return "://" not in os.fspath(checkpoint_id)

    def reset(self, checkpoint_id: str | os.PathLike[str] | None = None) -> None:
        self._drop()
        if checkpoint_id:
            self.path = checkpoint_id

    def storage_meta(self) -> StorageMeta:
        return StorageMeta(checkpoint_id=os.fspath(self.path))

    def set_up_storage_writer(self, is_coordinator: bool, *_arguments: Any, **kwargs: Any) -> None:
        self._drop()
        if not kwargs.get("use_collectives", True):
            raise _errors.lacking("rank_local", "metadata of single ranks (use_collectives=False) is not written", hint="FileSystemWriter writes it")

    def prepare_local_plan(self, plan: SavePlan) -> SavePlan:
        for item in plan.items:
            have = item.tensor_data.properties if item.tensor_data else None
            if have and (have.layout is not torch.strided or have.dtype in _QUANTIZED):
                raise _errors.usage(
                    "layout", "a tensor of this kind is not saved", key=item.index.fqn, got=f"{have.layout}, {have.dtype}", expected="a strided tensor, not quantized",
                    hint="save tensor.to_dense(); of a quantized one tensor.int_repr(), and its scale beside it",
                )
        return plan

    def prepare_global_plan(self, plans: list[SavePlan]) -> list[SavePlan]:
        """On the coordinator: makes the folder, and tells the others by their plans where it is."""
        if len(plans) > 1 and not all(getattr(plan, "usable", True) for plan in plans):
            raise _errors.lacking("cached_plans", "plans that a planner has cached do not say where this save goes", hint="a planner without enable_plan_caching")
        text = self._begin(0, len(plans), None)
        return [dataclasses.replace(plan, storage_data=(rank, len(plans), text)) for rank, plan in enumerate(plans)]

    def _begin(self, rank: int, world: int, text: bytes | None) -> bytes:
        """`text` is that of rank 0, which names the folder."""
        options = _abi.make(
            _abi.SaveOptions, rank=rank, world_size=world, replace=self._replace, skip_sync=not self._sync,
            threads=threads_of(self._threads),
        )
        path = os.path.abspath(os.fsdecode(self.path)) if self.path else ""
        if not path:
            raise _errors.usage("no_path", "the path is empty", expected="a folder to save into")
        with contextlib.suppress(OSError):  # if it fails, the library says so
            os.makedirs(os.path.dirname(path), exist_ok=True)
        job = _jobs.Job(_abi.lib.dcpctl_begin(_abi.one_path(self.path), options))
        if world > 1 and job.wait(-1) == _abi.EXCHANGE:
            text = job.text() if text is None else text
            job.give([text] * world)
        self._saving = job.finish().saving
        self._pid = os.getpid()
        return text or b""

    def write_data(self, plan: SavePlan, planner: SavePlanner) -> Future[list[WriteResult]]:
        rank, world, text = plan.storage_data
        if self._saving is None:
            self._begin(rank, world, text)
        results: list[WriteResult] = []
        running: list[tuple[_jobs.Job, list[WriteItem]]] = []
        try:
            for items, shards in self._batches(plan.items, planner):
                running.append((shards.append_to(self._saving), items))
                if len(running) > 1:
                    results += _written(*running.pop(0))
            while running:
                results += _written(*running.pop(0))
            _jobs.Job(_abi.lib.dcpctl_complete(self._saving)).finish()
        except BaseException:
            for job, _items in running:
                job.free()
            self._drop()
            raise
        if rank != 0:
            self._drop()
        done: Future[list[WriteResult]] = Future()
        done.set_result(results)
        return done

    @staticmethod
    def _batches(items: list[WriteItem], planner: SavePlanner) -> Iterator[tuple[list[WriteItem], _Shards]]:
        batch, shards = [], _Shards()
        for item in items:
            batch.append(item)
            shards.add(item.index.fqn, planner.resolve_data(item))
            if shards.bytes >= _AHEAD:
                yield batch, shards
                batch, shards = [], _Shards()
        if batch:
            yield batch, shards

    def finish(self, metadata: Metadata, results: list[list[WriteResult]]) -> None:
        # Without a StorageMeta, which torch 2.3 does not know, and every other makes where there is none.
        metadata = dataclasses.replace(
            metadata, storage_data={r.index: r.storage_data for of_rank in results for r in of_rank}, storage_meta=None,
            **({"version": CURRENT_DCP_VERSION} if CURRENT_DCP_VERSION else {}),
        )
        data = io.BytesIO()
        _Pickler(data).dump(metadata)
        try:
            _jobs.Job(_abi.lib.dcpctl_finish(self._saving, data.getvalue(), data.tell())).finish()
        finally:
            self._drop()


class _Pickler(pickle.Pickler):
    """Metadata that older releases read as well: torch 2.15 has added strides to TensorProperties, which those refuse, and which no load uses."""

    def reducer_override(self, value: Any) -> Any:
        if type(value) is not TensorProperties:
            return NotImplemented
        reduced: Any = value.__reduce_ex__(2)
        return *reduced[:2], reduced[2][:5], *reduced[3:]


def _written(job: _jobs.Job, items: list[WriteItem]) -> list[WriteResult]:
    places = job.finish().places
    return [WriteResult(index=item.index, size_in_bytes=length, storage_data=_StorageInfo(file, offset, length)) for item, (file, offset, length) in zip(items, places)]


class _Shards:
    """What is appended by one job: an array of dcpctl_shard, and what it refers to."""

    def __init__(self) -> None:
        self.bytes = 0
        self._rows: list[tuple[bytes, torch.Tensor | memoryview]] = []

    def add(self, key: str, data: torch.Tensor | io.BytesIO) -> None:
        value: torch.Tensor | memoryview = data.getbuffer() if isinstance(data, io.BytesIO) else _plain(data)
        self._rows.append((_abi.encode(key or "(no name)"), value))  # for messages
        self.bytes += value.nbytes

    def append_to(self, saving: int | None) -> _jobs.Job:
        shards = (_abi.Shard * len(self._rows))()
        held: list[object] = [self._rows]
        for shard, (key, value) in zip(shards, self._rows):
            shard.size = ctypes.sizeof(_abi.Shard)
            shard.key = _abi.held_text(key, held)
            if isinstance(value, torch.Tensor):
                item = value.element_size()
                shard.dtype = str(value.dtype)[6:].encode()
                shard.rank = value.dim()
                shard.sizes = shard.shape = _abi.held_integers(value.shape, held)
                shard.strides = None if value.is_contiguous() else _abi.held_integers([s * item for s in value.stride()], held)
                shard.data = value.data_ptr()
            else:
                shard.data = _abi.held_buffer(value, held)
                shard.bytes = value.nbytes
        return _jobs.Job(_abi.lib.dcpctl_append(saving, shards, len(shards)), held)


def _plain(tensor: torch.Tensor) -> torch.Tensor | memoryview:
    """A tensor of the CPU that the library can write; of any other kind, a file of torch.save with it."""
    tensor = tensor.detach().cpu()
    if type(tensor) in (torch.Tensor, torch.nn.Parameter) and tensor.layout is torch.strided and not tensor.is_quantized and str(tensor.dtype)[6:] in _memory.DTYPES:
        return tensor.resolve_conj().resolve_neg()
    file = io.BytesIO()
    torch.save(tensor, file)
    return file.getbuffer()


# ---- in one line each

def load(
    state_dict: dict[str, Any], path: str | os.PathLike[str], *, planner: LoadPlanner | None = None, process_group: dist.ProcessGroup | None = None,
    no_dist: bool = False, **options: Any,
) -> None:
    """dcp.load with a Reader, which gets the other options. A failure is raised as the dcpctl.Error of the first rank that has one."""
    from torch.distributed.checkpoint.state_dict_loader import load as dcp_load

    with _one_error():
        reader = Reader(path, process_group=process_group, **options)
        if no_dist:
            reader._share = None
        dcp_load(state_dict, storage_reader=reader, planner=planner, process_group=process_group, **_alone(no_dist))


def save(
    state_dict: dict[str, Any], path: str | os.PathLike[str], *, planner: SavePlanner | None = None, process_group: dist.ProcessGroup | None = None,
    no_dist: bool = False, **options: Any,
) -> None:
    """dcp.save with a Writer, which gets the other options. A failure leaves nothing behind, and is raised as load() raises it."""
    from torch.distributed.checkpoint.state_dict_saver import save as dcp_save

    writer = Writer(path, **options)
    try:
        with _one_error():
            dcp_save(state_dict, storage_writer=writer, planner=planner, process_group=process_group, **_alone(no_dist))
    finally:
        writer._drop()


_VERSION = tuple(int(n) for n in torch.__version__.split(".")[:2])
_stager: Any = None  # what torch copies a state dict into: its memory is used again by the next save
_in_flight: Any = None


def async_save(
    state_dict: dict[str, Any], path: str | os.PathLike[str], *, refuse_second: bool = False, planner: SavePlanner | None = None,
    process_group: dist.ProcessGroup | None = None, **options: Any,
) -> Any:
    """dcp.async_save with a Writer, which gets the other options; from torch 2.15 on with a stager that is kept between calls. Returns torch's future.

    A save that is still under way is waited for, since the stager's memory is used again; or refused, with `refuse_second`.
    """
    global _in_flight, _stager
    from torch.distributed.checkpoint import staging
    from torch.distributed.checkpoint.state_dict_saver import async_save as dcp_async_save

    if _in_flight is not None and not _in_flight.done():
        if refuse_second:
            raise _errors.usage("save_in_flight", "another save is still under way", path=os.fspath(path))
        _in_flight.exception()
    if _stager is None and _VERSION >= (2, 15):  # DefaultStager before closes itself after its first save
        has_cuda = torch.cuda.is_available()
        _stager = staging.DefaultStager(staging.StagingOptions(has_cuda, False, False, has_cuda))
    if not hasattr(staging, "DefaultStager"):  # torch 2.6 copies none of the CPU's tensors
        plain = {key: value.state_dict() if isinstance(value, Stateful) else value for key, value in state_dict.items()}
        state_dict = tree_map_only(torch.Tensor, lambda t: t.detach().clone() if t.device.type == "cpu" else t, plain)
    named: dict[str, Any] = {} if _stager is None else {"async_stager": _stager}
    made = dcp_async_save(state_dict, storage_writer=Writer(path, **options), planner=planner, process_group=process_group, **named)
    _in_flight = getattr(made, "upload_completion", made)
    return made


def _alone(no_dist: bool) -> dict[str, Any]:
    """The argument, for releases that have it. Where no group of processes is there, all of them do without one."""
    return {"no_dist": True} if no_dist and dist.is_available() and dist.is_initialized() else {}


@contextlib.contextmanager
def _one_error() -> Iterator[None]:
    """What torch has gathered of all ranks becomes Ctrl-C if that is in it, or the first dcpctl.Error, with its rank."""
    from torch.distributed.checkpoint.api import CheckpointException

    try:
        yield
    except CheckpointException as gathered:
        if any(isinstance(error, KeyboardInterrupt) for error, _trace in gathered.failures.values()):
            raise KeyboardInterrupt from gathered
        for rank, (error, _trace) in sorted(gathered.failures.items()):
            if isinstance(error, _errors.Error):
                error.rank = rank if error.rank is None else error.rank
                raise error from gathered
        raise
