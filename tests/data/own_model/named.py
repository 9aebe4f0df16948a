"""named.py OUT.safetensors KEY...: a tensor of two by two for each of these names."""
import json
import struct
import sys

header = {key: {"dtype": "F32", "shape": [2, 2], "data_offsets": [16 * i, 16 * i + 16]} for i, key in enumerate(sys.argv[2:])}
text = json.dumps(header).encode()
with open(sys.argv[1], "wb") as file:
    file.write(struct.pack("<Q", len(text)) + text + struct.pack(f"<{4 * len(header)}f", *range(4 * len(header))))
