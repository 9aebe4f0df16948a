"""Dtypes, and memory that tensors are read into: buffers, arrays and whatever else says where its elements are."""

from __future__ import annotations

import ctypes
import sys
from ctypes import POINTER, Structure, c_int32, c_int64, c_uint8, c_uint16, c_uint64, c_void_p

from . import _errors

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

# torch's name: bytes of an element, format of a buffer ("" where there is none), DLPack's (code, bits). 2 is float, 4 bfloat.
DTYPES: dict[str, tuple[int, str, tuple[int, int]]] = {
    "float64": (8, "d", (2, 64)), "float32": (4, "f", (2, 32)), "float16": (2, "e", (2, 16)), "bfloat16": (2, "", (4, 16)),
    "float8_e4m3fn": (1, "", (10, 8)), "float8_e4m3fnuz": (1, "", (11, 8)), "float8_e5m2": (1, "", (12, 8)), "float8_e5m2fnuz": (1, "", (13, 8)),
    "float8_e8m0fnu": (1, "", (14, 8)), "float4_e2m1fn_x2": (1, "", (17, 4)),
    "int64": (8, "q", (0, 64)), "int32": (4, "i", (0, 32)), "int16": (2, "h", (0, 16)), "int8": (1, "b", (0, 8)),
    "uint64": (8, "Q", (1, 64)), "uint32": (4, "I", (1, 32)), "uint16": (2, "H", (1, 16)), "uint8": (1, "B", (1, 8)), "bool": (1, "?", (6, 8)),
    "complex128": (16, "Zd", (5, 128)), "complex64": (8, "Zf", (5, 64)), "complex32": (4, "", (5, 32)), "bcomplex32": (4, "", (-1, 0)),
    "qint32": (4, "", (-1, 0)), "qint8": (1, "", (-1, 0)), "quint8": (1, "", (-1, 0)), "quint4x2": (1, "", (-1, 0)), "quint2x4": (1, "", (-1, 0)),
    "bits16": (2, "", (-1, 0)), "bits8": (1, "", (-1, 0)), "bits1x8": (1, "", (-1, 0)), "bits2x4": (1, "", (-1, 0)), "bits4x2": (1, "", (-1, 0)),
}
FLOATS = ("float64", "float32", "float16", "bfloat16", "float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz")  # that a read converts
_SAME = {"l": "q", "L": "Q", "n": "q", "N": "Q"}  # of 64-bit Linux
_KINDS = {"f": "float", "i": "int", "u": "uint", "c": "complex", "b": "bool"}


def dtype_name(dtype: object) -> str:
    """torch's name, of what people and the program's options call it."""
    name = str(dtype).lower()
    name = name[6:] if name.startswith("torch.") else name
    return {"fp32": "float32", "fp16": "float16", "bf16": "bfloat16", "f8e4m3": "float8_e4m3fn", "f8e5m2": "float8_e5m2"}.get(name, name)


def item_bytes(dtype: str) -> int:
    if dtype not in DTYPES:
        raise _errors.usage("unknown_dtype", "no dtype has this name", got=dtype, hint="names are torch's: float32, bfloat16, int64")
    return DTYPES[dtype][0]


def elements(shape: Sequence[int]) -> int:
    count = 1
    for n in shape:
        count *= n
    return count


def row_major(shape: Sequence[int], item: int) -> list[int]:
    strides = [item] * len(shape)
    for dim in range(len(shape) - 2, -1, -1):
        strides[dim] = strides[dim + 1] * max(shape[dim + 1], 1)
    return strides


def overlap(shape: Sequence[int], strides: Sequence[int], item: int) -> bool:
    """Whether elements share memory."""
    end = item
    for stride, n in sorted((abs(stride), n) for n, stride in zip(shape, strides) if n > 1):
        if stride < end:
            return 0 not in shape
        end += stride * (n - 1)
    return False


def extent(address: int, shape: Sequence[int], strides: Sequence[int] | None, item: int) -> tuple[int, int]:
    """Of memory: its first byte, and the one after its last."""
    if 0 in shape:
        return address, address
    reach = [(n - 1) * stride for n, stride in zip(shape, row_major(shape, item) if strides is None else strides)]
    return address + sum(r for r in reach if r < 0), address + sum(r for r in reach if r > 0) + item


def in_turn(extents: Sequence[tuple[int, int]]) -> list[list[int]]:
    """Groups of places in memory, by their numbers, of which no two within a group overlap. Those that do are in the order of their numbers."""
    clusters: list[list[int]] = []
    end = 0
    for n in sorted(range(len(extents)), key=lambda n: extents[n]):
        if not clusters or extents[n][0] >= end:
            clusters.append([])
        clusters[-1].append(n)
        end = max(end, extents[n][1])
    groups: list[list[int]] = []
    for cluster in clusters:
        for turn, n in enumerate(sorted(cluster)):
            if turn == len(groups):
                groups.append([])
            groups[turn].append(n)
    return groups


class Destination:
    """Memory of an `into=`: where its first element is, the strides in bytes, and what keeps it alive."""

    __slots__ = ("address", "keep", "strides")

    def __init__(self, address: int, strides: Sequence[int] | None, keep: object) -> None:
        self.address = address
        self.strides = strides  # None: row-major
        self.keep = keep


def destination(into: object, shape: tuple[int, ...], dtype: str) -> Destination:
    """Where `into` has the elements of a tensor. UsageError if it does not fit."""
    place = _destination(into, shape, dtype)
    if place.strides is not None and overlap(shape, place.strides, item_bytes(dtype)):
        raise _misfit("has several elements in one place", f"strides {list(place.strides)}", "memory for each element")
    return place


def _destination(into: object, shape: tuple[int, ...], dtype: str) -> Destination:
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(into, torch.Tensor):
        return of_torch(into, shape, dtype)
    if hasattr(into, "__array_interface__"):
        return _of_array(into, shape, dtype)
    try:
        view = memoryview(into)  # type: ignore[arg-type]
    except TypeError:
        if hasattr(into, "__dlpack__"):
            return _of_dlpack(into, shape, dtype)
        raise _misfit("is no writable buffer and no array", type(into).__name__, "a buffer, an array or a tensor") from None
    return _of_buffer(view, shape, dtype)


def _misfit(what: str, got: object, expected: object) -> _errors.UsageError:
    return _errors.usage("destination", f"into= {what}", got=str(got), expected=str(expected))


def _check(got_dtype: str, got_shape: Sequence[int], shape: tuple[int, ...], dtype: str) -> None:
    if tuple(got_shape) != shape:
        raise _misfit("has another shape", list(got_shape), list(shape))
    if got_dtype != dtype:
        error = _misfit("has another dtype", got_dtype, dtype)
        if {got_dtype, dtype} <= {*FLOATS}:
            error.hint = f'.to("{got_dtype}") converts it'
        elif got_dtype in DTYPES:
            error.hint = "only floating-point dtypes are converted: read it as it is, and convert that"
        raise error


def of_torch(tensor: object, shape: tuple[int, ...], dtype: str) -> Destination:
    kind = type(tensor)
    if kind.__torch_dispatch__ is not sys.modules["torch"].Tensor.__torch_dispatch__:  # type: ignore[attr-defined]
        raise _misfit("has no memory that is its own", f"{kind.__module__}.{kind.__qualname__}", "torch.Tensor")
    t = tensor.detach()  # type: ignore[attr-defined]
    if t.is_conj() or t.is_neg():
        raise _misfit("is a conjugate or negative view", "other values than its memory has", "a tensor with the values of its memory")
    if t.device.type != "cpu":
        raise _misfit("is not in the memory of the CPU", t.device, "cpu")
    if t.layout is not sys.modules["torch"].strided:
        raise _misfit("is not strided", t.layout, "torch.strided")
    _check(str(t.dtype)[6:], t.shape, shape, dtype)
    item = t.element_size()
    return Destination(t.data_ptr(), None if t.is_contiguous() else [s * item for s in t.stride()], t)


def _of_array(array: object, shape: tuple[int, ...], dtype: str) -> Destination:
    numpy = sys.modules.get("numpy")
    if numpy is not None and isinstance(array, numpy.generic):  # what it shows is a copy
        raise _misfit("is read-only", type(array).__name__, "an array")
    face = array.__array_interface__  # type: ignore[attr-defined]
    kind = face.get("typestr")
    if not isinstance(kind, str) or not isinstance(face.get("shape"), tuple):
        raise _misfit("does not say what its elements are", "__array_interface__ without typestr or shape", "both")
    if kind[0] == ">":
        raise _misfit("is big-endian", kind, "little-endian")
    name = "bool" if kind[1] == "b" else f"{_KINDS.get(kind[1], kind[1])}{8 * int(kind[2:])}" if kind[2:].isdigit() else kind
    if name not in DTYPES:  # dtypes of ml_dtypes have no type there, or one that several share; the array's own dtype has a name
        name = str(getattr(array, "dtype", kind))
    data = face.get("data")
    if not isinstance(data, tuple):
        raise _misfit("does not say where its memory is", f"__array_interface__ with data of {type(data).__name__}", "an address")
    address, read_only = data
    if read_only:
        raise _misfit("is read-only", "read-only", "writable")
    _check(name, face["shape"], shape, dtype)
    return Destination(address, face.get("strides"), array)


def _of_buffer(view: memoryview, shape: tuple[int, ...], dtype: str) -> Destination:
    if view.readonly:
        raise _misfit("is read-only", "read-only", "writable")
    item = item_bytes(dtype)
    form = view.format.lstrip("@=<")
    form = _SAME.get(form, form)
    plain = form in ("B", "b", "c") and view.ndim == 1 and view.contiguous
    if not (plain and view.nbytes == elements(shape) * item):  # bytes of the right number are taken as they are
        wanted = DTYPES[dtype][1]
        if plain and wanted not in ("B", "b"):
            raise _misfit("has another size", f"{view.nbytes} bytes", f"{elements(shape) * item} bytes")
        _check(next((name for name, (_, f, _d) in DTYPES.items() if f and f == form), form), view.shape or (), shape, dtype)
    if not view.nbytes:
        return Destination(0, None, view)
    buffer = _Py_buffer()
    _get_buffer(view, ctypes.byref(buffer), 0x18)  # PyBUF_STRIDES
    address = buffer.buf
    strides = None if plain else list(view.strides or ())
    _release_buffer(ctypes.byref(buffer))  # `view` still holds it
    return Destination(address, strides, view)


class _Py_buffer(Structure):
    _fields_ = [
        ("buf", c_void_p), ("obj", c_void_p), ("len", ctypes.c_ssize_t), ("itemsize", ctypes.c_ssize_t), ("readonly", ctypes.c_int),
        ("ndim", ctypes.c_int), ("format", ctypes.c_char_p), ("shape", c_void_p), ("strides", c_void_p), ("suboffsets", c_void_p), ("internal", c_void_p),
    ]


_get_buffer = ctypes.pythonapi.PyObject_GetBuffer
_get_buffer.argtypes = [ctypes.py_object, POINTER(_Py_buffer), ctypes.c_int]
_get_buffer.restype = ctypes.c_int
_release_buffer = ctypes.pythonapi.PyBuffer_Release
_release_buffer.argtypes = [POINTER(_Py_buffer)]
_release_buffer.restype = None


class _DLTensor(Structure):
    _fields_ = [
        ("data", c_void_p), ("device_type", c_int32), ("device_id", c_int32), ("ndim", c_int32), ("code", c_uint8), ("bits", c_uint8),
        ("lanes", c_uint16), ("shape", POINTER(c_int64)), ("strides", POINTER(c_int64)), ("byte_offset", c_uint64),
    ]


_capsule_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_capsule_pointer.argtypes = [ctypes.py_object, ctypes.c_char_p]
_capsule_pointer.restype = c_void_p


def _of_dlpack(into: object, shape: tuple[int, ...], dtype: str) -> Destination:
    device = into.__dlpack_device__()  # type: ignore[attr-defined]
    if device[0] not in (1, 3):  # the CPU's memory, and what is pinned of it
        raise _misfit("is not in the memory of the CPU", f"device {tuple(device)}", "CPU")
    # It is not consumed: the capsule drops its tensor when it is freed, and so lives as long as the read.
    try:
        capsule = into.__dlpack__()  # type: ignore[attr-defined]
    except BufferError as why:  # numpy's, of an array that is read-only
        raise _misfit("gives no memory to write to", why, "writable") from None
    t = _DLTensor.from_address(_capsule_pointer(capsule, b"dltensor"))
    name = next((name for name, (_, _f, d) in DTYPES.items() if d == (t.code, t.bits) and t.lanes == 1), f"code {t.code}, {t.bits} bits")
    _check(name, t.shape[: t.ndim], shape, dtype)
    item = item_bytes(dtype)
    strides = [s * item for s in t.strides[: t.ndim]] if t.strides else None
    return Destination((t.data or 0) + t.byte_offset, strides, capsule)


# ---- arrays that are made here

def need_numpy() -> object:
    try:
        import numpy
    except ImportError:
        raise _errors.lacking("numpy_missing", "numpy is not installed", hint="pip install numpy") from None
    return numpy


def need_torch() -> object:
    try:
        import torch
    except ImportError:
        raise _errors.lacking("torch_missing", "torch is not installed", hint="pip install torch") from None
    return torch


def numpy_dtype(name: str) -> object:
    numpy = need_numpy()
    if DTYPES.get(name, (0, "", 0))[1]:
        return numpy.dtype(name)  # type: ignore[attr-defined]
    try:
        import ml_dtypes  # pyright: ignore[reportMissingImports]
    except ImportError:
        raise _errors.lacking("ml_dtypes_missing", f"numpy has {name} with ml_dtypes only", hint='pip install ml_dtypes; or .to("float32")') from None
    if not hasattr(ml_dtypes, name):
        raise _errors.lacking("numpy_dtype", "numpy and ml_dtypes have no such dtype", got=name)
    return numpy.dtype(getattr(ml_dtypes, name))  # type: ignore[attr-defined]


def torch_dtype(name: str) -> object:
    torch = need_torch()
    dtype = getattr(torch, name, None)
    if dtype is None:
        raise _errors.lacking("torch_dtype", "this torch has no such dtype", got=name)
    return dtype
