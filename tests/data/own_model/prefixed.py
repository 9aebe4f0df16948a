"""prefixed.py CHECKPOINT FOLDER...: moves each rank's file, as dcpctl wrote it, into a folder of its own, as connectors of object stores do to spread load."""
import os
import sys

checkpoint, folders = sys.argv[1], sys.argv[2:]
with open(f"{checkpoint}/.metadata", "rb") as file:
    metadata = file.read()
for rank, folder in enumerate(folders):
    name = f"__{rank}_0.distcp"
    os.makedirs(f"{checkpoint}/{folder}", exist_ok=True)
    os.rename(f"{checkpoint}/{name}", f"{checkpoint}/{folder}/{name}")
    text = lambda s: b"\x8c" + bytes([len(s)]) + s.encode()  # SHORT_BINUNICODE
    assert metadata.count(text(name)) == 1
    metadata = metadata.replace(text(name), text(f"{folder}/{name}"))
with open(f"{checkpoint}/.metadata", "wb") as file:
    file.write(metadata)
