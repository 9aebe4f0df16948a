"""A safetensors file of float32."""
import json
import struct


def write(path, tensors):  # {key: (shape, values)}
    header, data = {}, b""
    for key, (shape, values) in sorted(tensors.items()):
        payload = struct.pack(f"<{len(values)}f", *values)
        header[key] = {"dtype": "F32", "shape": shape, "data_offsets": [len(data), len(data) + len(payload)]}
        data += payload
    text = json.dumps(header).encode()
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + data)


def numbered(shapes):
    """Values that differ from tensor to tensor."""
    tensors = {}
    for n, (key, shape) in enumerate(sorted(shapes.items())):
        count = 1
        for size in shape:
            count *= size
        tensors[key] = (shape, [n + i / count for i in range(count)])
    return tensors
