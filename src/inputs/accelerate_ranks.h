// FSDP checkpoints of accelerate (accelerate/utils/fsdp_utils.py, 1.15) with a file for each rank: pytorch_model_fsdp_I_rankR.bin and
// optimizer_I_rankR.bin, written with torch.save, where I counts the models. Under FSDP2 tensors are DTensors, under FSDP1 ShardedTensors; how
// many ranks there were is in them alone. Keys are those of accelerate's distributed checkpoints: model.*, optimizer.state.*.
#pragma once

#include <string_view>

#include "inputs/input.h"

namespace dcp {

// Whether a file of this name makes a folder such a checkpoint: one of a model.
bool is_accelerate_rank_file(std::string_view name);

// Throws file_missing, torch_rank_part, not_checkpoint, and what opening a torch.save file throws.
OpenedCatalog open_accelerate_ranks(Found& at);

}  // namespace dcp
