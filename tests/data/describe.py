"""Values as text that can be compared: what make.py writes into expected.json and what the tests compare with it."""
import dataclasses
import hashlib
import io

import numpy
import torch


@dataclasses.dataclass
class Point:
    """A class that only this folder has: saved checkpoints name it, and nobody else can build it."""

    x: int
    y: object = None


def dtype_name(dtype):
    return str(dtype).removeprefix("torch.")


def raw_bytes(tensor):
    """The logical elements in row-major order, little-endian, conj and neg applied. Quantized: the integers."""
    t = tensor.detach()
    t = t.int_repr() if t.is_quantized else t.resolve_conj().resolve_neg()
    size = t.numel() * t.element_size()
    if size == 0:
        return b""
    if not t.is_contiguous():
        # Through integers of the same width: some dtypes have no copy.
        same_width = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}.get(t.element_size())
        t = (t.view(same_width) if same_width else t).contiguous()
    whole = torch.empty(0, dtype=torch.uint8).set_(t.untyped_storage())
    start = t.storage_offset() * t.element_size()
    return whole[start : start + size].numpy().tobytes()


def describe_tensor(tensor):
    found = {"dtype": dtype_name(tensor.dtype), "shape": list(tensor.shape), "sha256": hashlib.sha256(raw_bytes(tensor)).hexdigest()}
    if tensor.is_quantized and tensor.qscheme() == torch.per_tensor_affine:
        found["quantizer"] = [tensor.q_scale(), tensor.q_zero_point()]
    elif tensor.is_quantized:
        scales, zeros = tensor.q_per_channel_scales(), tensor.q_per_channel_zero_points()
        found["quantizer"] = [scales.tolist(), zeros.tolist(), tensor.q_per_channel_axis()]
    return found


def describe_object(value, above=()):
    """repr() that is complete, the same in every process, and ends on cycles."""
    if id(value) in above:
        return "<cycle>"
    above = (*above, id(value))
    inner = lambda v: describe_object(v, above)
    kind = type(value)
    if isinstance(value, torch.Tensor):
        return "tensor(%(dtype)s, %(shape)s, %(sha256)s)" % describe_tensor(value)
    if kind is numpy.ndarray:
        return f"ndarray({value.dtype.str}, {list(value.shape)}, {value.tobytes(order='C').hex()})"
    if isinstance(value, numpy.generic):
        return f"numpy({value.dtype.str}, {value.tobytes().hex()})"
    if kind is io.BytesIO:
        return f"BytesIO({value.getvalue().hex()}, {value.tell()})"
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return f"{kind.__name__}({', '.join(inner(getattr(value, f.name)) for f in dataclasses.fields(value))})"
    if isinstance(value, dict):
        return f"{kind.__name__}({{{', '.join(f'{inner(k)}: {inner(v)}' for k, v in value.items())}}})"
    if kind in (tuple, list, torch.Size):
        return f"{kind.__name__}({', '.join(map(inner, value))})"
    if kind in (set, frozenset):
        return f"{kind.__name__}({', '.join(sorted(map(inner, value)))})"
    if callable(value):
        return f"{value.__module__}.{value.__qualname__}"
    return f"{kind.__name__}:{value!r}"
