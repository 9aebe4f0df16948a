"""A checkpoint, its tensors and its objects, as one reads them."""

from __future__ import annotations

import os
from array import array
from collections.abc import Iterable, Iterator, Mapping
from ctypes import c_uint32, pointer, sizeof, string_at
from struct import Struct

from . import _abi, _errors, _jobs, _memory

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from types import EllipsisType
    from typing import Any, TypeVar

    from numpy import ndarray
    from torch import Tensor as TorchTensor

    S = TypeVar("S")
    Index = int | slice | EllipsisType | tuple[int | slice | EllipsisType, ...]

_ENTRY = Struct("NPNPNPIiQQIi")  # _abi.Entry, for many at once
_CHUNK = Struct("NPPPNQQ")
_BATCH = 4096
_AHEAD = 32 << 20  # bytes of a job of iter_tensors()


def open(
    path: str | os.PathLike[str],
    *,
    step: int | str | None = None,
    map: str | os.PathLike[str] | None = None,
    map_to: str | os.PathLike[str] | None = None,
    map_config: str | os.PathLike[str] | None = None,
    include: str | Iterable[str] = (),
    exclude: str | Iterable[str] = (),
    rename: str | Iterable[str] = (),
    root: str | None = None,
    model_only: bool = False,
    dtype: str | Mapping[str, str] | None = None,
    prefer_rank: int | None = None,
    max_memory: int | None = None,
    threads: int | None = None,
) -> Checkpoint:
    """Opens what dcpctl reads: a DCP folder, a step of a run, a safetensors file, a Hugging Face folder, a torch.save file, files of ranks.

    The options are those of the program: `step` is a number or "latest" if the path is a run; `map` the name or file of a map of the model;
    `include` and `exclude` are globs of keys, `rename` is "REGEX=>REPLACEMENT"; `root` is the part of the state dict that is taken; `model_only`
    leaves out what a trainer keeps beside the model. `dtype` converts floating-point tensors of the model: one name, or a name for each glob
    ("keep" leaves them). Metadata is read, no data; with a map also headers.
    """
    asked = {name: value for name, value in locals().items() if name != "path"}
    return Checkpoint(_Core(path, asked), None)


def default_threads() -> int:
    """0: the library's choice. Ranks of one node share its cores."""
    try:
        ranks = int(os.environ.get("LOCAL_WORLD_SIZE", "1"))
    except ValueError:
        ranks = 1
    return max(1, len(os.sched_getaffinity(0)) // ranks) if ranks > 1 else 0


def threads_of(asked: int | None) -> int:
    return default_threads() if asked is None else number("threads", asked, 32)


def number(name: str, value: int, bits: int) -> int:
    if not hasattr(value, "__index__") or not 0 <= value < 1 << bits:
        raise _errors.usage("number", f"{name}= is no such number", got=str(value), expected="0 or more")
    return value.__index__()


def _framework(name: str) -> None:
    if name not in ("torch", "numpy"):
        raise _errors.usage("framework", "no such framework", got=str(name), expected="torch or numpy")


def _texts(value: str | Iterable[str]) -> list[str]:
    return [value] if isinstance(value, str) else list(value)


class _Handle:
    """The library's checkpoint, freed with the last reference: a call in another thread, or what looks at its memory, has one."""

    __slots__ = ("_as_parameter_", "_pid")

    def __init__(self, address: int | None) -> None:
        self._as_parameter_ = address
        self._pid = os.getpid()

    def __del__(self) -> None:
        if os.getpid() == self._pid:
            _abi.lib.dcpctl_checkpoint_free(self)


class _Core:
    """The library's checkpoint. It is freed with the last of what reads from it."""

    __slots__ = ("__weakref__", "asked", "handle", "jobs", "path", "pid", "keys")

    def __init__(self, path: str | os.PathLike[str], asked: dict[str, Any]) -> None:
        self.handle: _Handle | None = None
        self.path = os.fsdecode(path)
        self.asked = asked
        self.pid = os.getpid()
        self.jobs: set[_jobs.Job] = set()
        self.keys: dict[str, int] | None = None
        one, place, dtype, prefer = _abi.one_text, _abi.one_path, asked["dtype"], asked["prefer_rank"]
        rules = [f"{glob}={_memory.dtype_name(name)}" for glob, name in dtype.items()] if isinstance(dtype, Mapping) else []
        if isinstance(dtype, Mapping) and not rules:
            raise _errors.usage("dtype", "dtype= has no rule", got="{}", expected="a name, or a name for each glob")
        options = _abi.make(
            _abi.OpenOptions, step=one(None if asked["step"] is None else str(asked["step"])), max_memory=number("max_memory", asked["max_memory"] or 0, 64),
            threads=threads_of(asked["threads"]), model_only=bool(asked["model_only"]), root=one(asked["root"]),
            include=_abi.text_list(_texts(asked["include"])), exclude=_abi.text_list(_texts(asked["exclude"])),
            rename=_abi.text_list(_texts(asked["rename"])), dtype_rules=_abi.text_list(rules), map=place(asked["map"]),
            dtype=None if rules or dtype is None else one(_memory.dtype_name(dtype)), map_to=place(asked["map_to"]), map_config=place(asked["map_config"]),
            prefer_rank=None if prefer is None else pointer(c_uint32(number("prefer_rank", prefer, 32))),
        )
        self.handle = _Handle(_jobs.Job(_abi.lib.dcpctl_open(place(path), options)).finish().checkpoint)

    def get(self) -> _Handle:
        """The handle. What it gives is there as long as it is held: another thread may close the checkpoint."""
        handle = self.handle
        if handle is None:
            raise _errors.usage("closed", "the checkpoint is closed", path=self.path)
        if os.getpid() != self.pid:
            raise _errors.usage("forked", "the checkpoint was opened by the parent of this process", path=self.path, hint="open it anew after a fork")
        return handle

    def start(self, function: Callable[..., int | None], *arguments: object, keep: object = None) -> _jobs.Job:
        job = _jobs.Job(function(self.get(), *arguments), keep)
        self.jobs.add(job)
        if self.handle is None:  # closed meanwhile
            job.closed = True
        return job

    def finish(self, job: _jobs.Job, progress: _jobs.Progress = None, look: Callable[[_jobs.Job], object] | None = None) -> _jobs.Outcome:
        try:
            return job.finish(progress, look)
        finally:
            self.jobs.discard(job)

    def run(self, function: Callable[..., int | None], *arguments: object, keep: object = None, progress: _jobs.Progress = None) -> _jobs.Outcome:
        return self.finish(self.start(function, *arguments, keep=keep), progress)

    def close(self) -> None:
        if self.handle is None or os.getpid() != self.pid:
            return
        self.handle = None
        for job in list(self.jobs):
            job.closed = True  # who waits for it sees that

    # ---- what is in it

    def facts(self) -> Any:
        handle = self.get()
        facts = _abi.fill(_abi.Facts, _abi.lib.dcpctl_checkpoint_facts, handle)
        facts.keep = handle
        return facts

    def entries(self, first: int, count: int) -> Iterator[tuple[Any, ...]]:
        """(key, dtype, shape, bytes, chunks, path parts, requires grad, is object) of each."""
        while count > 0:
            handle = self.get()  # its memory has the keys
            some = _abi.many(_abi.Entry, min(count, _BATCH))
            got = _abi.lib.dcpctl_entries(handle, first, len(some), some)
            for _size, key, key_bytes, dtype, dtype_bytes, shape, rank, is_object, size, chunks, parts, grad in _ENTRY.iter_unpack(memoryview(some).cast("B")[: got * _ENTRY.size]):
                yield (
                    _abi.decode(string_at(key, key_bytes)), string_at(dtype, dtype_bytes).decode() if dtype_bytes else "", _abi.integers(shape, rank),
                    size, chunks, parts, bool(grad), bool(is_object),
                )
            if not got:
                return
            first, count = first + got, count - got

    def all_keys(self) -> dict[str, int]:
        self.get()
        if self.keys is None:
            self.keys = {e[0]: n for n, e in enumerate(self.entries(0, self.facts().entries))}
        return self.keys

    def find(self, key: str) -> int | None:
        handle = self.get()
        if self.keys is not None:
            return self.keys.get(key)
        data = _abi.encode(key)
        found = _abi.lib.dcpctl_find(handle, data, len(data))
        return None if found == _abi.NOTHING else found

    def steps(self, entry: int, parts: int) -> list[tuple[str | int, bool]]:
        """The way to an entry in the state dict: names, and whether one is a position in a list."""
        handle, some = self.get(), _abi.many(_abi.PathPart, parts)
        got = _abi.lib.dcpctl_path(handle, entry, 0, parts, some)
        return [(p.position, True) if p.position >= 0 else (int(_abi.text(p.name)) if p.is_integer else _abi.text(p.name), False) for p in some[:got]]

    def chunks(self, entry: int, rank: int, first: int, count: int) -> list[Chunk]:
        handle, some = self.get(), _abi.many(_abi.Chunk, count)
        got = _abi.lib.dcpctl_chunks(handle, entry, first, count, some)
        files: dict[tuple[int, int], str] = {}
        chunks = []
        for _size, offsets, sizes, file, file_bytes, offset, length in _CHUNK.iter_unpack(memoryview(some).cast("B")[: got * _CHUNK.size]):
            name = files.get((file, file_bytes))
            if name is None:
                name = files[file, file_bytes] = _abi.decode(string_at(file, file_bytes)) if file_bytes else ""
            chunks.append(Chunk(_abi.integers(offsets, rank), _abi.integers(sizes, rank), name, offset, length))
        return chunks

    def describe(self, entry: int) -> dict[str, Any]:
        return self.describe_all([entry])[0]

    def describe_all(self, entries: Sequence[int]) -> list[dict[str, Any]]:
        import json

        texts = self.run(_abi.lib.dcpctl_describe, _jobs.numbers(entries), len(entries)).texts
        return [json.loads(t) for t in texts]

    def stored_objects(self, entries: Sequence[int], progress: _jobs.Progress = None) -> list[bytes]:
        return self.run(_abi.lib.dcpctl_objects, _jobs.numbers(entries), len(entries), progress=progress).texts

    def read(self, parts: Parts, progress: _jobs.Progress = None, threads: int = 0) -> _jobs.Outcome:
        return self.finish(self.start_read(parts, threads), progress)

    def start_read(self, parts: Parts, threads: int = 0) -> _jobs.Job:
        options = _abi.make(_abi.ReadOptions, threads=threads)
        address, count, keep = parts.pack()
        return self.start(_abi.lib.dcpctl_read, address, count, options, keep=keep)


class Parts:
    """Parts of tensors and their memory: an array of dcpctl_part."""

    __slots__ = ("_dtypes", "_ints", "_keep", "_words")

    def __init__(self) -> None:
        self._words: list[tuple[int, int, int, int, int, int, bytes | None]] = []
        self._ints = array("q")
        self._keep: list[object] = []
        self._dtypes: dict[str, bytes] = {}

    def __len__(self) -> int:
        return len(self._words)

    def add(
        self, entry: int, to: int, *, starts: Sequence[int] | None = None, counts: Sequence[int] | None = None, steps: Sequence[int] | None = None,
        strides: Sequence[int] | None = None, dtype: str | None = None, keep: object = None,
    ) -> None:
        name = None if dtype is None else self._dtypes.setdefault(dtype, dtype.encode() + b"\0")
        self._words.append((entry, self._list(starts), self._list(counts), self._list(steps), to, self._list(strides), name))
        if keep is not None:
            self._keep.append(keep)

    def _list(self, values: Sequence[int] | None) -> int:
        if values is None:
            return -1
        at = len(self._ints)
        self._ints.extend(values)
        return at

    def pack(self) -> tuple[int | None, int, object]:
        base = self._ints.buffer_info()[0]
        names = array("B", b"".join(self._dtypes.values()) or b"\0")
        at, name_at = names.buffer_info()[0], {}
        for value in self._dtypes.values():
            name_at[value] = at
            at += len(value)
        words, size = array("Q"), sizeof(_abi.Part)
        for entry, starts, counts, steps, to, strides, name in self._words:
            words.extend((
                size, entry, base + 8 * starts if starts >= 0 else 0, base + 8 * counts if counts >= 0 else 0, base + 8 * steps if steps >= 0 else 0, to,
                base + 8 * strides if strides >= 0 else 0, name_at[name] if name else 0,
            ))
        return words.buffer_info()[0], len(self._words), (words, names, self._ints, self._keep)


class _OfFile:
    """What reads from a file that is open in this process. It does not change, and so is its own copy."""

    __slots__ = ()

    def __copy__(self: S) -> S:
        return self

    def __deepcopy__(self: S, _memo: object) -> S:
        return self

    def __reduce_ex__(self, _protocol: object) -> Any:
        raise _errors.usage(
            "not_pickled", f"a {type(self).__name__} refers to a file that is open, and is not pickled", key=getattr(self, "key", None),
            hint="save what it holds (.torch(), .value, .raw), or leave it out; another process opens the checkpoint anew",
        )


class Chunk:
    """A box of a tensor, and where it lies: bytes of a file of the checkpoint's folder (file "" if there is none)."""

    __slots__ = ("file", "length", "offset", "offsets", "sizes")

    def __init__(self, offsets: tuple[int, ...], sizes: tuple[int, ...], file: str, offset: int, length: int) -> None:
        self.offsets = offsets
        self.sizes = sizes
        self.file = file
        self.offset = offset
        self.length = length

    def __repr__(self) -> str:
        return f"Chunk(offsets={self.offsets}, sizes={self.sizes}, file={self.file!r}, offset={self.offset}, length={self.length})"


class Checkpoint(_OfFile, Mapping["str", "Any"]):
    """From key to Tensor or Object. It can be read from several threads; `with` closes it."""

    __slots__ = ("_core", "_prefix", "_part")

    def __init__(self, core: _Core, prefix: str | None) -> None:
        self._core = core
        self._prefix = prefix  # of a subtree: "model."
        self._part: dict[str, int] | None = None

    def __repr__(self) -> str:
        return f"<dcpctl.Checkpoint {self._core.path!r}{f', {self._prefix[:-1]}' if self._prefix else ''}{', closed' if self._core.handle is None else ''}>"

    # Comparing the values would read them all.
    def __eq__(self, other: object) -> bool:
        return self is other

    def __hash__(self) -> int:
        return id(self)

    def __enter__(self) -> Checkpoint:
        return self

    def __exit__(self, *_why: object) -> None:
        self.close()

    def close(self) -> None:
        """Ends what reads from it, by an error, and lets go of its files. A subtree closes the whole."""
        self._core.close()

    # ---- what it is

    @property
    def path(self) -> str:
        """Of a run: the folder of the step."""
        path = self._core.facts().path
        return os.fsdecode(string_at(path.data, path.bytes))

    @property
    def kind(self) -> str:
        return _abi.text(self._core.facts().kind)

    @property
    def written_by(self) -> str | None:
        """Releases of torch that write it so, such as "2.4 - 2.6"; None if that is not known."""
        return _abi.text(self._core.facts().written_by) or None

    @property
    def step(self) -> int | None:
        step = self._core.facts().step
        return int(step.contents.value) if step else None

    @property
    def ranks(self) -> int | None:
        """That saved it, or that the chunks suggest; None if no tensor is sharded."""
        return int(self._core.facts().ranks) or None

    # ---- what is in it

    def _index(self) -> dict[str, int]:
        keys = self._core.all_keys()
        if self._prefix is None:
            return keys
        if self._part is None:
            start = len(self._prefix)
            self._part = {key[start:]: entry for key, entry in keys.items() if key.startswith(self._prefix)}
        return self._part

    def __getitem__(self, key: str) -> Any:  # a Tensor or an Object: who asks for a key knows
        entry = self._core.find((self._prefix or "") + key) if isinstance(key, str) else None
        if entry is None:
            raise self._missing(key, "there is no such key")
        return self._make(key, entry)

    def _missing(self, key: object, what: str) -> _errors.MissingKey:
        return _errors.MissingKey(id="missing_key", kind="usage", what=what, key=str(key), path=self._core.path, hint=self._nearest(str(key)))

    def _nearest(self, key: str) -> str | None:
        from difflib import get_close_matches

        found = get_close_matches(key, self._index(), 1) if len(self._index()) <= 100_000 else []
        below = next((k for k in self._index() if k.startswith(key + ".")), None)
        return f"subtree({key!r}) has what is below it" if below else f"its name is {found[0]!r}" if found else None

    def _make(self, key: str, entry: int) -> Tensor | Object:
        return self._of(key, entry, next(self._core.entries(entry, 1)))

    def _of(self, key: str, entry: int, facts: tuple[Any, ...]) -> Tensor | Object:
        _key, dtype, shape, size, chunks, parts, grad, is_object = facts
        if is_object:
            return Object(self._core, entry, key, size, parts)
        return Tensor(self._core, entry, key, shape, dtype, chunks, parts, grad)

    def __iter__(self) -> Iterator[str]:
        return iter(self._index())

    def __len__(self) -> int:
        return int(self._core.facts().entries) if self._prefix is None else len(self._index())

    def __contains__(self, key: object) -> bool:
        return isinstance(key, str) and self._core.find((self._prefix or "") + key) is not None

    def _everything(self) -> Iterator[tuple[str, int, tuple[Any, ...]]]:
        """(key, entry, facts) of all, in the order of the metadata."""
        prefix = self._prefix or ""
        for entry, facts in enumerate(self._core.entries(0, self._core.facts().entries)):
            if facts[0].startswith(prefix):
                yield facts[0][len(prefix):], entry, facts

    @property
    def tensors(self) -> dict[str, Tensor]:
        return _Found(self, ((key, self._of(key, entry, facts)) for key, entry, facts in self._everything() if not facts[7]))

    @property
    def objects(self) -> dict[str, Object]:
        return _Found(self, ((key, self._of(key, entry, facts)) for key, entry, facts in self._everything() if facts[7]))

    def subtree(self, name: str) -> Checkpoint:
        """What is below `name`, by its own names: subtree("model")["norm.weight"] is ["model.norm.weight"]."""
        part = Checkpoint(self._core, f"{self._prefix or ''}{name}.")
        if not part._index():
            raise _errors.MissingKey(id="missing_key", kind="usage", what="there is nothing below this name", key=name, path=self._core.path)
        return part

    # ---- reading many

    def state_dict(
        self, prefix: str | None = None, *, model_only: bool = False, nested: bool = True, framework: str = "torch",
        into: Mapping[str, Any] | None = None, progress: _jobs.Progress = None,
    ) -> Any:
        """All tensors, read by one plan, and the values of the objects; nested as they were saved (a list, if `prefix` names one), or by their flat keys.

        `framework` is "torch" or "numpy". `into` has tensors by their flat keys that are read into, and only these keys are read. An object whose pickle
        holds more than plain values is left as an Object. Tensors of `into` that share memory are read one after the other, in their order. Tensors
        that shared their memory when a torch.save file was written are equal, not shared.
        """
        _framework(framework)
        if model_only and not self._core.asked["model_only"]:
            if self._prefix is not None:  # the model has other names, without the prefix
                raise _errors.usage("model_only", "model_only= is for a whole checkpoint", path=self._core.path, got=f"its part {self._prefix[:-1]}", hint="open(path, model_only=True)")
            with Checkpoint(_Core(self.path, {**self._core.asked, "step": None, "model_only": True}), None) as model:
                return model.state_dict(prefix, nested=nested, framework=framework, into=into, progress=progress)
        if prefix is not None:
            return self.subtree(prefix).state_dict(nested=nested, framework=framework, into=into, progress=progress)
        entries = self._wanted(into)
        places, values = [], {}
        for key, (entry, facts) in entries.items():
            made = values[key] = self._of(key, entry, facts)
            if isinstance(made, Tensor):
                values[key] = into[key] if into is not None else made._empty(framework)
                places.append((made, made._place(values[key])))
        for group in _memory.in_turn([_memory.extent(at.address, t.shape, at.strides, _memory.item_bytes(t.dtype)) for t, at in places]):
            parts = Parts()
            for tensor, at in map(places.__getitem__, group):
                tensor._add_at(parts, at.address, at.strides, at.keep)
            self._core.read(parts, progress)
        objects = [value for value in values.values() if isinstance(value, Object)]
        for made, told in zip(objects, self._core.describe_all([o._entry for o in objects]) if objects else ()):
            if "value" in told:
                values[made.key] = _plain(told["value"])
        if not nested:
            return values
        return _nest((self._steps(key, entry, facts[5]), values[key]) for key, (entry, facts) in entries.items())

    def _steps(self, key: str, entry: int, parts: int) -> list[tuple[str | int, bool]]:
        """The way to an entry, without what the prefix names; just the key if that is no end of the way."""
        steps, begin = self._core.steps(entry, parts), ""
        while steps and len(begin) < len(self._prefix or ""):
            begin += f"{steps.pop(0)[0]}."
        return steps if steps and begin == (self._prefix or "") else [(key, False)]

    def _wanted(self, into: Mapping[str, Any] | None) -> dict[str, tuple[int, tuple[Any, ...]]]:
        if into is None:
            return {key: (entry, facts) for key, entry, facts in self._everything()}
        wanted = {}
        for key in into:
            found = self[key]
            if not isinstance(found, Tensor):
                raise _errors.usage("destination", "into= has a key of an object", key=key, expected="tensors")
            wanted[key] = (found._entry, next(self._core.entries(found._entry, 1)))
        return wanted

    def iter_tensors(self, *, framework: str = "torch") -> Iterator[tuple[str, Any]]:
        """(key, tensor) of every tensor, in the order of the files, while the next ones are being read."""
        _framework(framework)
        tensors = [(self._core.chunks(entry, len(facts[2]), 0, 1), self._of(key, entry, facts)) for key, entry, facts in self._everything() if not facts[7]]
        tensors.sort(key=lambda pair: (pair[0][0].file, pair[0][0].offset) if pair[0] else ("", 0))
        running: tuple[_jobs.Job, list[tuple[str, Any]]] | None = None
        try:
            for batch in _batches(t for _chunks, t in tensors):
                parts, values = Parts(), []
                for tensor in batch:
                    values.append((tensor.key, tensor._empty(framework)))
                    tensor._add(parts, values[-1][1])
                before, running = running, (self._core.start_read(parts), values)
                if before:
                    self._core.finish(before[0])
                    yield from before[1]
            if running:
                last, running = running, None
                self._core.finish(last[0])
                yield from last[1]
        finally:
            if running:
                self._core.jobs.discard(running[0])
                running[0].free()


class _Found(dict):  # type: ignore[type-arg]
    """Some entries of a checkpoint."""

    def __init__(self, checkpoint: Checkpoint, items: Iterable[tuple[str, Any]]) -> None:
        super().__init__(items)
        self._checkpoint = checkpoint

    def __missing__(self, key: Any) -> Any:
        other = self._checkpoint.get(key)
        raise self._checkpoint._missing(key, "there is no such key" if other is None else f"it is {'an object' if isinstance(other, Object) else 'a tensor'}")


def _batches(tensors: Iterator[Any]) -> Iterator[list[Tensor]]:
    batch: list[Tensor] = []
    size = 0
    for tensor in tensors:
        if batch and size + tensor.nbytes > _AHEAD:
            yield batch
            batch, size = [], 0
        batch.append(tensor)
        size += tensor.nbytes
    if batch:
        yield batch


def _nest(rows: Iterable[tuple[list[tuple[str | int, bool]], Any]]) -> Any:
    """Dicts and lists of values, by the way to each: names, and whether a name is a position in a list."""
    top: dict[Any, Any] = {}
    lists: list[tuple[dict[Any, Any], Any, dict[int, Any]]] = []  # what holds it, under which name; the inner ones come last
    for steps, value in rows:
        at = top
        for (step, _), (_, in_list) in zip([("", False), *steps], steps):
            if step not in at:
                at[step] = {}
                if in_list:
                    lists.append((at, step, at[step]))
            at = at[step]
        at[steps[-1][0]] = value
    for holder, name, by_position in reversed(lists):
        holder[name] = [by_position.get(n) for n in range(max(by_position) + 1)]
    return top.get("", {})


def _plain(value: Any) -> Any:
    """A VALUE of dcpctl_describe."""
    if isinstance(value, list):
        return [_plain(v) for v in value]
    if not isinstance(value, dict):
        return value
    ((kind, inside),) = value.items()
    if kind == "dict":
        return {_plain(k): _plain(v) for k, v in inside}
    if kind == "bytes":
        return bytes.fromhex(inside)
    if kind == "float":
        return float(inside)
    return {"tuple": tuple, "set": set, "frozenset": frozenset}[kind](_plain(v) for v in inside)


class Object(_OfFile):
    """An object: nothing of it is executed."""

    __slots__ = ("_core", "_entry", "_parts", "_told", "key", "nbytes")

    def __init__(self, core: _Core, entry: int, key: str, size: int, parts: int) -> None:
        self._core = core
        self._entry = entry
        self._parts = parts
        self._told: dict[str, Any] | None = None
        self.key = key
        self.nbytes = size  # as stored

    def __repr__(self) -> str:
        return f"<dcpctl.Object {self.key!r}, {self.nbytes} bytes>"

    @property
    def path(self) -> tuple[str | int, ...]:
        """In the state dict."""
        return tuple(name for name, _in_list in self._core.steps(self._entry, self._parts))

    def _tell(self) -> dict[str, Any]:
        if self._told is None:
            self._told = self._core.describe(self._entry)
        return self._told

    @property
    def value(self) -> Any:
        """If its pickle holds nothing but plain values; else an InputError that says which names loading it would call."""
        told = self._tell()
        if "value" not in told:
            raise _errors.InputError(
                id="not_plain", kind="input", what="loading the object would call what its pickle names", key=self.key, got=", ".join(told["would_call"]),
                expected="plain values", hint=".raw has its bytes; torch.load(io.BytesIO(raw), weights_only=False) runs what it names", path=self._core.path,
            )
        return _plain(told["value"])

    @property
    def raw(self) -> bytes:
        """A file of torch.save with it."""
        return self._core.stored_objects([self._entry])[0]

    @property
    def would_call(self) -> list[str]:
        """Names that loading it would import and call; [] if it holds plain values alone."""
        return list(self._tell().get("would_call", []))

    @property
    def refused(self) -> list[str]:
        """Those of them that torch.load(weights_only=True) refuses."""
        return list(self._tell().get("refused", []))


class Tensor(_OfFile):
    """A tensor, or a slice of one: a handle, which is read when it is asked for its elements."""

    __slots__ = ("_box", "_cast", "_chunk_count", "_core", "_entry", "_parts", "_stored", "_whole", "key", "requires_grad", "shape")

    def __init__(self, core: _Core, entry: int, key: str, shape: tuple[int, ...], dtype: str, chunks: int, parts: int, requires_grad: bool) -> None:
        self._core = core
        self._entry = entry
        self._parts = parts
        self._chunk_count = chunks
        self._stored = dtype
        self._cast: str | None = None
        self._whole = shape
        self._box: list[tuple[int, int, int, bool]] | None = None  # of a slice, for each dim: start, count, step, whether the dim is still there
        self.key = key
        self.shape = shape
        self.requires_grad = requires_grad

    def __repr__(self) -> str:
        return f"<dcpctl.Tensor {self.key!r}, {list(self.shape)}, {self.dtype}>"

    @property
    def dtype(self) -> str:
        """As torch spells it: "bfloat16"."""
        return self._cast or self._stored

    @property
    def nbytes(self) -> int:
        return _memory.elements(self.shape) * _memory.item_bytes(self.dtype)

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def path(self) -> tuple[str | int, ...]:
        """In the state dict."""
        return tuple(name for name, _in_list in self._core.steps(self._entry, self._parts))

    @property
    def chunks(self) -> list[Chunk]:
        """Of the whole tensor: its boxes, and where they lie."""
        return self._core.chunks(self._entry, len(self._whole), 0, self._chunk_count)

    @property
    def placement(self) -> str:
        """Of the whole tensor, in words: "Shard(0) x8"."""
        return str(self._core.describe(self._entry)["placement"])

    # ---- other views

    def _view(self) -> Tensor:
        other = Tensor(self._core, self._entry, self.key, self._whole, self._stored, self._chunk_count, self._parts, self.requires_grad)
        other._cast, other._box, other.shape = self._cast, self._box, self.shape
        return other

    def to(self, dtype: str) -> Tensor:
        """The same in another floating-point dtype, converted as torch converts it, once."""
        name = _memory.dtype_name(dtype)
        _memory.item_bytes(name)
        if self._cast not in (None, name):
            raise _errors.usage("cast", "it is converted already, and would be rounded twice", key=self.key, got=f"{self._cast}, then {name}", expected="one dtype")
        other = self._view()
        other._cast = None if name == self._stored else name
        return other

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("a tensor without dims has no length")
        return self.shape[0]

    def __getitem__(self, index: Index) -> Tensor:
        """A slice: integers, ranges with positive steps, and `...`."""
        words: list[Any] = list(index) if isinstance(index, tuple) else [index]
        dots = [n for n, word in enumerate(words) if word is Ellipsis]
        missing = len(self.shape) - (len(words) - len(dots))
        if missing < 0 or len(dots) > 1:
            raise IndexError(f"{len(words)} indices for a tensor of {len(self.shape)} dims")
        at = dots[0] if dots else len(words)
        words[at : at + 1] = [slice(None)] * missing
        box, kept = [], iter(words)
        for start, count, step, is_there in self._box or [(0, n, 1, True) for n in self._whole]:
            if not is_there:
                box.append((start, count, step, False))
                continue
            word = next(kept)
            if isinstance(word, slice):
                first, last, by = word.indices(count)
                if by < 1:
                    raise _errors.usage("slice_step", "steps of a slice are positive", key=self.key, got=str(by))
                box.append((start + first * step, len(range(first, last, by)), step * by, True))
                continue
            try:
                n = None if isinstance(word, bool) else word.__index__()
            except (AttributeError, TypeError):
                n = None
            if n is None:
                raise _errors.usage("index", "a tensor is sliced by integers, ranges and ...", key=self.key, got=type(word).__name__)
            if not -count <= n < count:
                raise IndexError(f"index {n} is out of range: the dim has {count}")
            box.append((start + (n % count) * step, 1, step, False))
        other = self._view()
        other._box = box
        other.shape = tuple(count for _start, count, _step, is_there in box if is_there)
        return other

    # ---- its elements

    def _add_at(self, parts: Parts, to: int, strides: Sequence[int] | None, keep: object) -> None:
        """As an entry of a read. `strides` are those of the view's dims."""
        dtype = self.dtype if self._cast else None
        if self._box is None:
            parts.add(self._entry, to, strides=strides, dtype=dtype, keep=keep)
            return
        given = iter(_memory.row_major(self.shape, _memory.item_bytes(self.dtype)) if strides is None else strides)
        # A step of a range with one index, or none, may lead outside of the tensor.
        starts, counts, steps = ([b[0] if b[1] else 0 for b in self._box], [b[1] for b in self._box], [b[2] if b[1] > 1 else 1 for b in self._box])
        parts.add(
            self._entry, to, starts=starts, counts=counts, steps=steps, dtype=dtype, keep=keep, strides=[next(given) if b[3] else 0 for b in self._box],
        )

    def _place(self, into: object) -> _memory.Destination:
        if isinstance(into, _OfFile):
            raise _errors.usage("destination", "into= has no memory of its own", key=self.key, got=f"dcpctl.{type(into).__name__}", expected="a buffer, an array or a tensor")
        try:
            return _memory.destination(into, self.shape, self.dtype)
        except _errors.UsageError as why:
            raise _errors.usage(why.id, str(why.what), key=self.key, got=why.got, expected=why.expected, hint=why.hint) from None

    def _add(self, parts: Parts, into: object) -> None:
        place = self._place(into)
        self._add_at(parts, place.address, place.strides, place.keep)

    def _empty(self, framework: str) -> Any:
        if framework == "torch":
            dtype: Any = _memory.torch_dtype(self.dtype)
            return _memory.need_torch().empty(self.shape, dtype=dtype)  # type: ignore[attr-defined]
        return _memory.need_numpy().empty(self.shape, _memory.numpy_dtype(self.dtype))  # type: ignore[attr-defined]

    def read(self, into: Any = None, *, progress: _jobs.Progress = None) -> Any:
        """Reads the elements `into` a writable buffer, an array or a tensor on the CPU, and returns that.

        Without one: a buffer of bytes, row-major and little-endian. With one, shape and dtype have to be the tensor's; bytes have to be as many.
        """
        parts = Parts()
        if not self._stored:  # the library says what is known of it
            parts.add(self._entry, 0)
            self._core.read(parts)
        if into is None:
            into = bytearray(self.nbytes)
        self._add(parts, into)
        self._core.read(parts, progress)
        return into

    def torch(self, *, progress: _jobs.Progress = None) -> TorchTensor:
        return self.read(self._empty("torch"), progress=progress)  # type: ignore[no-any-return]

    def numpy(self, *, progress: _jobs.Progress = None) -> ndarray[Any, Any]:
        """An array; bfloat16 and float8 are dtypes of ml_dtypes."""
        return self.read(self._empty("numpy"), progress=progress)  # type: ignore[no-any-return]

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> ndarray[Any, Any]:
        if copy is False:
            raise ValueError("a tensor of a checkpoint has to be read: there is no array without a copy")
        made = self.numpy()
        return made if dtype is None else made.astype(dtype, copy=False)

    def __dlpack_device__(self) -> tuple[int, int]:
        return (1, 0)

    def __dlpack__(self, **asked: Any) -> Any:
        """Reads it into an array of numpy, or of torch if that has been imported or numpy lacks the dtype."""
        import sys

        if asked.get("dl_device") not in (None, (1, 0)):
            raise BufferError("a tensor of a checkpoint is read into the memory of the CPU")
        has_torch = "torch" in sys.modules or not _memory.DTYPES[self.dtype][1]
        return (self.torch() if has_torch else self.numpy()).__dlpack__()
