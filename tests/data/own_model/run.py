"""run.py OUT.safetensors [STEP]: two parameters, and what an optimizer keeps of them; the step of the second is STEP, or 7 as that of the first."""
import json
import struct
import sys

steps = {"gate": 7, "up": float(sys.argv[2]) if len(sys.argv) > 2 else 7}
tensors = {}
for n, (name, step) in enumerate(steps.items()):
    for m, key in enumerate((name, f"optimizer.state.{name}.exp_avg", f"optimizer.state.{name}.exp_avg_sq")):
        tensors[key] = ([2, 3], [100 * m + 10 * n + i for i in range(6)])
    tensors[f"optimizer.state.{name}.step"] = ([], [step])
header, data = {}, b""
for key, (shape, values) in sorted(tensors.items()):
    payload = struct.pack(f"<{len(values)}f", *values)
    header[key] = {"dtype": "F32", "shape": shape, "data_offsets": [len(data), len(data) + len(payload)]}
    data += payload
text = json.dumps(header).encode()
with open(sys.argv[1], "wb") as file:
    file.write(struct.pack("<Q", len(text)) + text + data)
