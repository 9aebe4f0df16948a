// Says what a path holds instead of a checkpoint, and what to do with it.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "inputs/input.h"

namespace dcp {

inline constexpr std::string_view kExpected = "a DCP folder, a torch.save or safetensors file, or a folder of safetensors files";

// Whether a folder with files of these names may be one node's part of a save: it has files of ranks, but neither metadata nor a file of
// rank 0. The rank that writes the metadata also writes data, so another node may have written both to its own disk.
bool may_be_one_nodes_part(const std::vector<std::string>& names);

// Throws not_checkpoint.
[[noreturn]] void refuse(Found& found);

}  // namespace dcp
