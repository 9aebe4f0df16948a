#!/usr/bin/env python3
"""What torch_checkpointing itself does, for bench.py. Needs it beside torch (.venv-maps).

items.py consolidate FOLDER OUT            its consolidation for Hugging Face; prints the seconds that it keeps cores busy, and those that it takes, once all is imported
items.py metadata FOLDER PATHS RANKS       metadata.pkl of a job of FSDP, without its data
"""
import pickle
import sys
import time
from pathlib import Path

sys.path[:0] = [str(Path(__file__).resolve().parents[2] / ".venv-maps")]


def consolidate(folder, out):
    from torch_checkpointing.hf.consolidation import consolidate_hf_safetensors_checkpoint
    from torch_checkpointing.storage.filesystem import LocalFileSystemStorageConfig

    start, busy = time.perf_counter(), time.process_time()
    consolidate_hf_safetensors_checkpoint(folder, output_dir=out, storage_config=LocalFileSystemStorageConfig(use_direct_io=False))
    print(time.process_time() - busy, time.perf_counter() - start)


def metadata(folder, paths, ranks):
    from torch_checkpointing.distributed_metadata import DistributedItemMetadata, DistributedMetadata, GlobalObjectMetadata
    from torch_checkpointing.dtensor_metadata import DeviceMeshSpec, DTensorShardingMetadata, ShardSpec

    world = tuple(range(int(ranks)))
    mesh = DeviceMeshSpec("cuda", (len(world),), world, ("fsdp",))

    def groups(n):  # as MetadataManager merges what the ranks send: the mesh is one object, the ranks are sorted for each path
        own = DTensorShardingMetadata(global_shape=(4096 + n, 64), dtype="torch.bfloat16", stride=(64, 1), placements=(ShardSpec(0),), mesh_spec=mesh)
        return [GlobalObjectMetadata(sharding_metadata=own, ranks=tuple(sorted(own.equivalent_ranks)))]

    paths = {("layers", str(n), "weight"): groups(n) for n in range(int(paths))}
    item = DistributedItemMetadata(nested_path_to_metadata=paths, rank_to_layout_info=dict.fromkeys(world))
    made = DistributedMetadata(metadata={"model": item}, world_size=len(world))
    Path(folder).mkdir(parents=True)
    Path(folder, "metadata.pkl").write_bytes(pickle.dumps(made.to_dict()))


if __name__ == "__main__":
    {"consolidate": consolidate, "metadata": metadata}[sys.argv[1]](*sys.argv[2:])
