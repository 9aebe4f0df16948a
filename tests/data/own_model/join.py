"""join.py OUT.safetensors FILE...: what these files of float32 hold."""
import json
import sys

header, data = {}, b""
for path in sys.argv[2:]:
    with open(path, "rb") as file:
        its = json.loads(file.read(int.from_bytes(file.read(8), "little")))
        its.pop("__metadata__", None)
        for key, entry in its.items():
            header[key] = entry | {"data_offsets": [len(data) + at for at in entry["data_offsets"]]}
        data += file.read()
text = json.dumps(header).encode()
with open(sys.argv[1], "wb") as out:
    out.write(len(text).to_bytes(8, "little") + text + data)
