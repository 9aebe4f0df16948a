#!/usr/bin/env python3
"""Writes the small real items in this folder. Run with torch 2.15 and safetensors 0.8; the bytes are kept because later releases may write others."""
import io
import os
import struct
import sys

import torch
from safetensors.torch import save_file

HERE = os.path.dirname(os.path.abspath(__file__))


def save(name, value):
    buffer = io.BytesIO()
    torch.save(value, buffer)
    with open(os.path.join(HERE, name + ".item"), "wb") as f:
        f.write(buffer.getvalue())


class FrameOnly:
    """Takes an archive and keeps what is not a big payload: (position u64, length u64, bytes) for each write."""

    def __init__(self, path):
        self.out, self.position = open(path, "wb"), 0

    def write(self, data):
        view = memoryview(data).cast("B")
        if view.nbytes < 1 << 20:
            self.out.write(struct.pack("<QQ", self.position, view.nbytes) + view)
        self.position += view.nbytes
        return view.nbytes


def zip64_frame():
    """Records below, at and above 2^32-1 bytes, and an empty one behind them, as torch's own writer frames them."""
    sink = FrameOnly(os.path.join(HERE, "zip64.frame"))
    writer = torch._C.PyTorchFileWriter(sink, False, 64)
    memory = torch.empty((1 << 32) + 64, dtype=torch.uint8)  # never touched, so it costs no memory
    writer.write_record("data.pkl", b"x" * 150, 150)
    for i, size in enumerate([(1 << 32) - 2, (1 << 32) - 1, 0, (1 << 32) + 5]):
        writer.write_record(f"data/{i}", memory.data_ptr(), size)
    writer.write_record("version", b"3\n", 2)
    writer.write_end_of_file()
    sink.out.close()


def mixed_safetensors():
    """A tensor of every dtype that safetensors has, 0-dim and empty ones, and names that need escapes."""
    tensors = {}
    names = ["float64", "float32", "float16", "bfloat16", "float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz",
             "float8_e8m0fnu", "float4_e2m1fn_x2", "int64", "int32", "int16", "int8", "uint64", "uint32", "uint16", "uint8", "bool",
             "complex64"]
    for i, name in enumerate(names):
        tensors[f"{'zyx'[i % 3]}.{name}"] = (torch.arange(48, dtype=torch.uint8) % 2).view(getattr(torch, name)).reshape(2, -1)
    tensors["a.scalar"] = torch.tensor(1.5, dtype=torch.float16)
    tensors["a.empty"] = torch.zeros((0, 3))
    for name in ["", "Z", "a", "\u00e9", "\ue000", "\U0001d11e", 'q"\\\n\x01\x7f\u2028']:
        tensors[name] = torch.arange(3, dtype=torch.float32)
    save_file(tensors, os.path.join(HERE, "mixed.safetensors"), metadata={"format": "pt"})


def main():
    mixed_safetensors()
    ten = torch.arange(10, dtype=torch.float32)
    save("float32", ten)
    save("transposed", torch.arange(6, dtype=torch.int16).reshape(2, 3).t())
    save("float8", torch.arange(6, dtype=torch.uint8).reshape(2, 3).view(torch.float8_e4m3fn))
    save("scalar", torch.tensor(2.5, dtype=torch.float64))
    save("empty", torch.zeros((0, 3), dtype=torch.bfloat16))
    save("slice", ten[3:7])
    save("conj", torch.tensor([1 + 2j, 3 - 4j], dtype=torch.complex64).conj())
    save("neg", torch.tensor([1 + 2j, 3 - 4j], dtype=torch.complex64).conj().imag)
    save("parameter", torch.nn.Parameter(ten[:2].clone()))
    tagged = ten[:2].clone()
    tagged.tag = "x"
    save("tagged", tagged)
    save("quantized", torch.quantize_per_tensor(ten[:4], 0.5, 1, torch.qint8))
    save("untyped", torch.tensor([1, 2], dtype=torch.uint16))
    save("number", 7)
    save("dict", {"a": ten[:2].clone(), "b": [1, None]})
    torch.serialization.set_crc32_options(False)
    save("nocrc", ten)
    zip64_frame()


if __name__ == "__main__":
    sys.exit(main())
