// Checkpoints of torch_checkpointing 0.1: metadata.pkl, a pickle of dicts (distributed_metadata.py), and a file for each item and rank, written
// with torch.save:
//   {"metadata": {ITEM: {"rank_to_layout_info": {RANK: None | {"file_path", "serialization_format": {"type"}}}, ...}},
//    "world_size": N, "version": "2.0"}
// None stands for ITEM_RANK.pt. Items without tensors are not listed: their files have such names. An item is an entry of the state dict.
// The metadata also describes how its tensors are sharded, but that is read from the DTensors themselves.
#pragma once

#include <string>
#include <vector>

#include "catalog/open.h"

namespace dcp {

inline constexpr std::string_view kTorchCheckpointingMetadata = "metadata.pkl";

// Items in formats other than torch.save's are left out, with a finding. Throws not_checkpoint if the pickle is something else, and what
// open_rank_files throws.
OpenedCatalog open_torch_checkpointing(Store& store, const std::string& path, const std::vector<DirEntry>& entries,
                                       const OpenOptions& options);

}  // namespace dcp
