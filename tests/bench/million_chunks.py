"""million_chunks.py FOLDER: the .metadata of 10,000 matrices on 100 ranks, pickled by torch's own classes. No data files."""
import pickle
import sys
from pathlib import Path

import torch
from torch.distributed.checkpoint import metadata as m
from torch.distributed.checkpoint.filesystem import _StorageInfo

TENSORS, RANKS, ROWS, COLUMNS = 10_000, 100, 64, 1024
ITEM = 1577 + ROWS * COLUMNS * 4

folder = Path(sys.argv[1])
folder.mkdir(parents=True)
tensors, storage, paths = {}, {}, {}
for t in range(TENSORS):
    key = f"model.layers.{t // 10}.feed_forward.w{t % 10}.weight"
    chunks = []
    for rank in range(RANKS):
        offsets = torch.Size((rank * ROWS, 0))
        chunks.append(m.ChunkStorageMetadata(offsets, torch.Size((ROWS, COLUMNS))))
        storage[m.MetadataIndex(key, offsets, rank)] = _StorageInfo(f"__{rank}_0.distcp", t * ITEM, ITEM)
    properties = m.TensorProperties(dtype=torch.float32)
    tensors[key] = m.TensorStorageMetadata(properties, torch.Size((ROWS * RANKS, COLUMNS)), chunks)
    paths[key] = ("model", key.removeprefix("model."))
with open(folder / ".metadata", "wb") as f:
    pickle.dump(m.Metadata(tensors, paths, storage, m.StorageMeta(), "1.0.0"), f)
