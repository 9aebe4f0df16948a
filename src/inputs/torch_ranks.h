// FSDP checkpoints of verl and SkyRL (verl/utils/checkpoint/fsdp_checkpoint_manager.py, 0.9): PART_world_size_N_rank_R.pt, written with
// torch.save, where PART is model, optim or extra_state. Each part is an entry of one state dict. extra_state is private to each rank
// (random generators, its position in the data), so rank R's is put under "extra_state", "rank_R". The same happens to any part except the
// model whose tensors differ and are not DTensors: under FSDP1, verl's default, an optimizer holds flat shards.
#pragma once

#include <string_view>

namespace dcp {

// Whether a file of this name makes a folder such a checkpoint, or one of accelerate.
bool is_rank_file(std::string_view name);

}  // namespace dcp
