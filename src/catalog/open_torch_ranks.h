// What verl and SkyRL save of FSDP workers (verl/utils/checkpoint/fsdp_checkpoint_manager.py, 0.9): PART_world_size_N_rank_R.pt, written with
// torch.save, where PART is model, optim or extra_state. Each part is an entry of one state dict; of extra_state, which holds what is each
// rank's own (random generators, its place in the data), that of rank R is under "extra_state", "rank_R".
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "catalog/open.h"

namespace dcp {

// Whether files of these names lie in a folder that open_torch_ranks opens.
bool is_rank_file(std::string_view name);

// Throws file_missing, ranks_disagree, torch_rank_part, and what opening a torch.save file throws.
OpenedCatalog open_torch_ranks(Io& io, const std::string& path, const std::vector<DirEntry>& entries, const OpenOptions& options);

}  // namespace dcp
