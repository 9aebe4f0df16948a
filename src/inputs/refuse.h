// Says what a path holds instead of a checkpoint, and what to do with it.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "inputs/input.h"

namespace dcp {

inline constexpr std::string_view kExpected = "a DCP folder, a torch.save or safetensors file, or a folder of safetensors files";

// Of a folder with files of these names: it has files of ranks, but neither metadata nor a file of rank 0. The rank that writes the metadata
// writes data, too, so that this may be what one node of several wrote on a disk of its own.
bool may_be_one_nodes_part(const std::vector<std::string>& names);

// Throws not_checkpoint.
[[noreturn]] void refuse(Found& found);

}  // namespace dcp
