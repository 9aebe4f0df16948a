// Says what a path holds instead of a checkpoint, and what to do with it.
#pragma once

#include <string_view>

#include "inputs/input.h"

namespace dcp {

inline constexpr std::string_view kExpected = "a DCP folder, a torch.save or safetensors file, or a folder of safetensors files";

// Throws not_checkpoint.
[[noreturn]] void refuse(Found& found);

}  // namespace dcp
