"""make.py OUT.safetensors [KEY...]: a tiny model as own.map's right side names it, without those keys."""
import json
import struct
import sys

shapes = {"model.embed.weight": [3, 2], "lm_head.weight": [3, 2]}
for layer in range(2):
    shapes[f"model.layers.{layer}.q.weight"] = [8, 2]
    for expert in range(2):
        shapes[f"model.layers.{layer}.{expert}.weight"] = [3, 2]
header, data = {}, b""
for key in sorted(set(shapes) - set(sys.argv[2:])):
    count = shapes[key][0] * shapes[key][1]
    payload = struct.pack(f"<{count}f", *range(100 * len(header), 100 * len(header) + count))
    header[key] = {"dtype": "F32", "shape": shapes[key], "data_offsets": [len(data), len(data) + len(payload)]}
    data += payload
text = json.dumps(header).encode()
with open(sys.argv[1], "wb") as file:
    file.write(struct.pack("<Q", len(text)) + text + data)
