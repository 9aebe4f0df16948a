// FSDP checkpoints of verl and SkyRL (verl/utils/checkpoint/fsdp_checkpoint_manager.py, 0.9): PART_world_size_N_rank_R.pt, written with
// torch.save, where PART is model, optim or extra_state. Each part is an entry of one state dict. extra_state holds what is private to each
// rank (random generators, its position in the data), so rank R's is put under "extra_state", "rank_R".
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "catalog/open.h"

namespace dcp {

// Whether a file of this name makes a folder one that open_torch_ranks opens.
bool is_rank_file(std::string_view name);

// Throws file_missing, ranks_disagree, torch_rank_part, and what opening a torch.save file throws.
OpenedCatalog open_torch_ranks(Store& store, const std::string& path, const std::vector<DirEntry>& entries, const OpenOptions& options);

}  // namespace dcp
