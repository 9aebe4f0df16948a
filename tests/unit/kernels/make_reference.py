#!/usr/bin/env python3
"""Writes reference.bin: what Tensor.copy_ of torch 2.15 makes of each pair of dtypes. convert_test.cc reads it.

    u8 count, then for each dtype: u8 length, name
    for each source dtype:
      u32 n, then n input elements: the interesting ones
      for each target dtype: n output elements
      u32 m: elements that bulk() makes here and in the test
      for each target dtype: a u32 CRC-32 over the outputs of each 256 of them

Left out because torch itself answers differently on different processors: the bits of a NaN of 16 bits (the reference holds 0x7fc0 and
0x7e00), and floats that do not fit the integer (the input is replaced by zero bytes).
"""
import sys
import zlib
from pathlib import Path

import numpy as np
import torch

NAMES = """float64 float32 float16 bfloat16 float8_e4m3fn float8_e5m2 float8_e4m3fnuz float8_e5m2fnuz float8_e8m0fnu
int64 int32 int16 int8 uint64 uint32 uint16 uint8 bool complex128 complex64 complex32 bcomplex32""".split()
COMPONENT = {"complex128": "float64", "complex64": "float32", "complex32": "float16", "bcomplex32": "bfloat16"}
BLOCK = 256

# Around the limits and the ties of every format: largest values, smallest normal and subnormal ones, halves of a last place.
EDGES = [0, 1, 0.5, 1.5, 2.5, 3.5, 127, 128, 129, 255, 256, 300.7, 32767, 32768, 65535, 65536, 65504, 65519.99, 65520, 448, 463.9, 464, 464.1,
         480, 240, 247.9, 248, 57344, 61439, 61440, 2**31 - 1, 2**31, 2**31 + 1, 2**32 - 1, 2**53 + 1, 2**63 - 1024, 2**63, 2**64 - 2048,
         3.4e38, 3.5e38, 1e300, float("inf"), float("nan"), 2**-24, 2**-25, 2**-25 * 1.0001, 3 * 2**-25, 2**-14, 2**-15, 2**-126, 2**-127,
         2**-149, 2**-150, 2**-9, 2**-10, 2**-10 * 1.01, 3 * 2**-10, 2**-17, 2**-18, 1e-40, 1 + 2**-8, 1 + 3 * 2**-9, 1 + 2**-11,
         1 + 3 * 2**-11, 1 + 2**-24, 1 + 2**-24 + 2**-40, 1 + 2**-11 + 2**-40, 1.5 * 2.0**127, 1.4 * 2.0**126]
INTEGER_EDGES = [*range(-4, 5), 127, 128, 255, 256, 448, 464, 465, 2047, 2049, 2051, 32767, 32768, 65503, 65519, 65520, 65535, 65536, 2**24 + 1,
                 2**24 + 3, 2**31 - 1, 2**31, 2**32 - 1, 2**32, 2**53 + 1, 2**54 + 2, 2**54 + 6, 2**62 + 2**38 + 1, 2**63 - 1, 2**63, 2**63 + 2**39,
                 2**63 + 2**39 + 1, 2**64 - 1, 2**64 - 1024, 2**64 - 1025]


def torch_dtype(name):
    return getattr(torch, name)


def size_of(name):
    return torch.empty(0, dtype=torch_dtype(name)).element_size()


def mix(i):
    """splitmix64 of an index."""
    z = (i + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


def bulk(name):
    """All patterns of a real dtype of 8 or 16 bits; 4,096 elements else, of all magnitudes that some target can tell apart."""
    component = COMPONENT.get(name, name)
    b = size_of(component)
    if name == "bool":
        return np.array([0, 1], np.uint8)
    if b <= 2 and component == name:
        return np.arange(256**b, dtype=np.uint64).astype(f"<u{b}").view(np.uint8)
    i = np.arange(4096 * (1 if component == name else 2), dtype=np.uint64)
    word, other = mix(2 * i), mix(2 * i + np.uint64(1))
    if component == "float64":
        bits = (word & np.uint64(0x800FFFFFFFFFFFFF)) | ((np.uint64(983) + other % np.uint64(110)) << np.uint64(52))
    elif component == "float32":
        bits = (word & np.uint64(0x807FFFFF)) | ((np.uint64(87) + other % np.uint64(108)) << np.uint64(23))
    elif component == name:
        bits = (word.view(np.int64) >> (other % np.uint64(64)).view(np.int64)).view(np.uint64)
    else:
        bits = word
    return bits.astype(f"<u{b}").view(np.uint8)


def with_one_nan(name, data):
    """`data` with one NaN instead of all that a component of 16 bits can have."""
    component = COMPONENT.get(name, name)
    if component in ("float16", "bfloat16"):
        nan = torch.from_numpy(data).view(torch_dtype(component)).isnan().numpy()
        data.view("<u2")[nan] = 0x7FC0 if component == "bfloat16" else 0x7E00
    return data


def edges(name):
    if name in COMPONENT:
        parts = edge_floats(COMPONENT[name]).reshape(-1, size_of(COMPONENT[name]))
        return np.concatenate([parts, np.roll(parts, 7, axis=0)], axis=1).ravel()
    if size_of(name) <= 2:
        return np.empty(0, np.uint8)  # bulk() has them all
    if name.startswith(("int", "uint")):
        values = np.array([v % 2**64 for v in INTEGER_EDGES], np.uint64)
        return values.astype(f"<u{size_of(name)}").view(np.uint8)
    return edge_floats(name)


def edge_floats(name):
    values = torch.tensor([*EDGES, *(-v for v in EDGES)], dtype=torch.float64).to(torch_dtype(name))
    return with_one_nan(name, values.view(torch.uint8).numpy())


def as_tensor(name, data):
    return torch.from_numpy(data.copy()).view(torch_dtype(name))


def fitting(source, target, data):
    """`data` with zero bytes where a float does not fit the integer."""
    if not target.startswith(("int", "uint")) or source.startswith(("int", "uint", "bool")):
        return data
    value = as_tensor(source, data).to(torch.complex128).real.numpy()
    bits = 64 if size_of(target) == 8 else 32
    with np.errstate(invalid="ignore"):
        keep = (value >= -(2.0 ** (bits - 1))) & (value < 2.0**bits)
    return (data.reshape(len(value), -1) * keep[:, None]).astype(np.uint8).ravel()


def convert(source, target, data):
    if len(data) == 0:
        return data
    x = as_tensor(source, fitting(source, target, data))
    out = torch.empty(x.shape, dtype=torch_dtype(target)).copy_(x).view(torch.uint8).numpy().copy()
    return with_one_nan(target, out).reshape(-1, size_of(target))


def main():
    assert torch.__version__.startswith("2.15."), torch.__version__
    out = bytearray([len(NAMES)])
    for name in NAMES:
        out += bytes([len(name)]) + name.encode()
    for source in NAMES:
        few, many = edges(source), bulk(source)
        out += (len(few) // size_of(source)).to_bytes(4, "little") + few.tobytes()
        for target in NAMES:
            out += convert(source, target, few).tobytes()
        out += (len(many) // size_of(source)).to_bytes(4, "little")
        for target in NAMES:
            result = convert(source, target, many)
            for at in range(0, len(result), BLOCK):
                out += zlib.crc32(result[at : at + BLOCK].tobytes()).to_bytes(4, "little")
    path = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).with_name("reference.bin")
    path.write_bytes(out)


if __name__ == "__main__":
    main()
