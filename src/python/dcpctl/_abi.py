"""The C library, as include/dcpctl/c.h declares it: structs, functions, and how its values become Python's. Nothing else here knows ctypes' types.

A struct is laid out as in the header (a test compares them), with its size first.
"""

from __future__ import annotations

import ctypes
import os
from ctypes import POINTER, Structure, byref, c_char_p, c_int32, c_int64, c_size_t, c_uint32, c_uint64, c_void_p, sizeof, string_at

from . import _errors, _program

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

ABI_VERSION = 1
RUNNING, DONE, FAILED, EXCHANGE = range(4)
NOTHING = 2**64 - 1


class Text(Structure):
    _fields_ = [("data", c_void_p), ("bytes", c_size_t)]


class Problem(Structure):
    _fields_ = [
        ("size", c_size_t), ("kind", c_int32), ("severity", c_int32), ("id", Text), ("path", Text), ("member", Text), ("key", Text),
        ("offset", POINTER(c_uint64)), ("rank", POINTER(c_uint32)), ("what", Text), ("got", Text), ("expected", Text), ("hint", Text), ("line", Text),
    ]


class Progress(Structure):
    _fields_ = [("size", c_size_t), ("bytes_done", c_uint64), ("bytes_total", c_uint64)]


class Place(Structure):
    _fields_ = [("size", c_size_t), ("file", Text), ("offset", c_uint64), ("length", c_uint64)]


class Result(Structure):
    _fields_ = [
        ("size", c_size_t), ("checkpoint", c_void_p), ("texts", POINTER(Text)), ("text_count", c_size_t), ("bytes_read", c_uint64),
        ("bytes_written", c_uint64), ("records_compared", c_uint64), ("records_not_compared", c_uint64), ("nanoseconds", c_uint64),
        ("saving", c_void_p), ("places", POINTER(Place)), ("place_count", c_size_t),
    ]


class OpenOptions(Structure):
    _fields_ = [
        ("size", c_size_t), ("step", c_char_p), ("max_memory", c_uint64), ("threads", c_uint32), ("model_only", c_int32), ("root", c_char_p),
        ("include", POINTER(c_char_p)), ("exclude", POINTER(c_char_p)), ("rename", POINTER(c_char_p)), ("dtype", c_char_p),
        ("dtype_rules", POINTER(c_char_p)), ("map", c_char_p), ("map_to", c_char_p), ("map_config", c_char_p), ("prefer_rank", POINTER(c_uint32)),
    ]


class Facts(Structure):
    _fields_ = [
        ("size", c_size_t), ("path", Text), ("kind", Text), ("written_by", Text), ("step", POINTER(c_uint64)), ("ranks", c_uint32),
        ("has_map", c_int32), ("entries", c_uint64), ("tensors", c_uint64), ("objects", c_uint64), ("chunks", c_uint64),
    ]


class Entry(Structure):
    _fields_ = [
        ("size", c_size_t), ("key", Text), ("dtype", Text), ("shape", c_void_p), ("rank", c_uint32), ("is_object", c_int32), ("bytes", c_uint64),
        ("chunks", c_uint64), ("path_parts", c_uint32), ("requires_grad", c_int32),
    ]


class PathPart(Structure):
    _fields_ = [("size", c_size_t), ("name", Text), ("position", c_int64), ("is_integer", c_int32)]


class Chunk(Structure):
    _fields_ = [("size", c_size_t), ("offsets", c_void_p), ("sizes", c_void_p), ("file", Text), ("offset", c_uint64), ("length", c_uint64)]


class Part(Structure):
    _fields_ = [
        ("size", c_size_t), ("entry", c_uint64), ("starts", c_void_p), ("counts", c_void_p), ("steps", c_void_p), ("to", c_void_p),
        ("strides", c_void_p), ("dtype", c_char_p),
    ]


class ReadOptions(Structure):
    _fields_ = [("size", c_size_t), ("threads", c_uint32)]


class Shard(Structure):
    _fields_ = [
        ("size", c_size_t), ("key", Text), ("dtype", c_char_p), ("rank", c_uint32), ("requires_grad", c_int32), ("shape", c_void_p),
        ("offsets", c_void_p), ("sizes", c_void_p), ("strides", c_void_p), ("data", c_void_p), ("path", POINTER(Text)), ("path_parts", c_size_t), ("bytes", c_uint64),
    ]


class SaveOptions(Structure):
    _fields_ = [
        ("size", c_size_t), ("rank", c_uint32), ("world_size", c_uint32), ("replace", c_int32), ("skip_sync", c_int32), ("threads", c_uint32),
    ]


# name: (result, arguments). A job, a checkpoint and a saving are addresses.
FUNCTIONS: dict[str, tuple[object, list[object]]] = {
    "dcpctl_abi_version": (c_uint32, []),
    "dcpctl_version": (c_char_p, []),
    "dcpctl_job_wait": (c_int32, [c_void_p, c_int64]),
    "dcpctl_job_progress": (None, [c_void_p, POINTER(Progress)]),
    "dcpctl_job_cancel": (None, [c_void_p]),
    "dcpctl_job_problem": (POINTER(Problem), [c_void_p]),
    "dcpctl_job_result": (None, [c_void_p, POINTER(Result)]),
    "dcpctl_job_text": (Text, [c_void_p]),
    "dcpctl_job_give": (None, [c_void_p, POINTER(Text), c_size_t]),
    "dcpctl_job_free": (None, [c_void_p]),
    "dcpctl_open": (c_void_p, [c_char_p, POINTER(OpenOptions)]),
    "dcpctl_checkpoint_free": (None, [c_void_p]),
    "dcpctl_checkpoint_facts": (None, [c_void_p, POINTER(Facts)]),
    "dcpctl_entries": (c_uint64, [c_void_p, c_uint64, c_uint64, POINTER(Entry)]),
    "dcpctl_find": (c_uint64, [c_void_p, c_char_p, c_size_t]),
    "dcpctl_path": (c_uint64, [c_void_p, c_uint64, c_uint64, c_uint64, POINTER(PathPart)]),
    "dcpctl_chunks": (c_uint64, [c_void_p, c_uint64, c_uint64, c_uint64, POINTER(Chunk)]),
    "dcpctl_describe": (c_void_p, [c_void_p, POINTER(c_uint64), c_size_t]),
    "dcpctl_objects": (c_void_p, [c_void_p, POINTER(c_uint64), c_size_t]),
    "dcpctl_read": (c_void_p, [c_void_p, c_void_p, c_size_t, POINTER(ReadOptions)]),
    "dcpctl_save": (c_void_p, [c_char_p, POINTER(Shard), c_size_t, POINTER(SaveOptions)]),
    "dcpctl_begin": (c_void_p, [c_char_p, POINTER(SaveOptions)]),
    "dcpctl_append": (c_void_p, [c_void_p, POINTER(Shard), c_size_t]),
    "dcpctl_complete": (c_void_p, [c_void_p]),
    "dcpctl_finish": (c_void_p, [c_void_p, c_char_p, c_size_t]),
    "dcpctl_saving_free": (None, [c_void_p]),
}


class _Library:
    """The library, whose functions are declared when they are first called."""

    def __init__(self) -> None:
        path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "libdcpctl.so")  # of a wheel that was compiled where it is installed
        if os.environ.get("DCPCTL_LIBRARY") or not os.path.exists(path):
            path = _program.find("DCPCTL_LIBRARY")  # of any other: the program is the library, too
        try:
            self._loaded = ctypes.CDLL(path)
        except OSError as why:
            raise _errors.lacking(
                "library_missing", f"the library cannot be loaded: {why}",
                hint="it is part of the wheel (pip install --force-reinstall dcpctl); DCPCTL_LIBRARY names another",
            ) from None
        version = self.dcpctl_abi_version()
        if version != ABI_VERSION:
            raise _errors.lacking(
                "library_version", "the library and this package are of different releases", path=path, got=str(version), expected=str(ABI_VERSION),
            )

    def __getattr__(self, name: str) -> Any:
        function = getattr(self._loaded, name)
        function.restype, function.argtypes = FUNCTIONS[name]
        setattr(self, name, function)
        return function


lib = _Library()


# ---- values

def text(t: Text) -> str:
    return decode(string_at(t.data, t.bytes)) if t.bytes else ""


def decode(data: bytes) -> str:
    try:
        return data.decode("utf-8", "surrogatepass")  # as torch's own pickles have it
    except UnicodeDecodeError:
        return data.decode("utf-8", "surrogateescape")


def encode(value: str) -> bytes:
    try:
        return value.encode("utf-8", "surrogateescape")  # which has no other surrogates than those of its own
    except UnicodeEncodeError:
        return value.encode("utf-8", "surrogatepass")


def integers(at: int | None, count: int) -> tuple[int, ...]:
    return tuple((c_int64 * count).from_address(at)) if at and count else ()


def problem_of(job: int) -> _errors.Error:
    p = lib.dcpctl_job_problem(job).contents
    words = {name: text(getattr(p, name)) or None for name in ("id", "path", "member", "key", "what", "got", "expected", "hint", "line")}
    return _errors.error(
        kind=_errors.KINDS[p.kind], offset=p.offset.contents.value if p.offset else None, rank=p.rank.contents.value if p.rank else None, **words,
    )


def text_list(values: list[str]) -> ctypes.Array[c_char_p]:
    return (c_char_p * (len(values) + 1))(*[_no_nul(encode(value)) for value in values], None)


def one_text(value: str | None) -> bytes | None:
    return None if value is None else _no_nul(encode(value))


def one_path(value: str | bytes | os.PathLike[str] | None) -> bytes | None:
    return None if value is None else _no_nul(os.fsencode(value))


def _no_nul(value: bytes) -> bytes:
    if b"\0" in value:
        raise _errors.usage("nul_in_text", "a text has a NUL in it", got=repr(value))
    return value


# Memory that a struct refers to, and that `held` keeps.

def held_text(value: bytes, held: list[Any]) -> Text:
    return Text(held_buffer(memoryview(value), held), len(value))


def held_buffer(value: memoryview, held: list[Any]) -> int | None:
    if not value.nbytes:
        return None
    kept = (ctypes.c_char * value.nbytes).from_buffer(value) if not value.readonly else ctypes.create_string_buffer(bytes(value), value.nbytes)
    held.append(kept)
    return ctypes.addressof(kept)


def held_integers(values: Sequence[int], held: list[Any]) -> int | None:
    if not values:
        return None
    kept = (c_int64 * len(values))(*values)
    held.append(kept)
    return ctypes.addressof(kept)


def make(kind: type[Structure], **members: object) -> Structure:
    return kind(size=sizeof(kind), **members)


def many(kind: type[Structure], count: int) -> ctypes.Array[Structure]:
    """An array of structs that the library fills in: it looks at the first one's size."""
    array = (kind * count)()
    if count:
        array[0].size = sizeof(kind)
    return array


def fill(kind: type[Structure], function: object, *arguments: object) -> Structure:
    struct = make(kind)
    function(*arguments, byref(struct))  # type: ignore[operator]
    return struct
