// safetensors as a checkpoint: a single file; a Hugging Face folder with an index; the shards of torch's HuggingFaceStorageWriter.
#pragma once

#include <string_view>

namespace dcp {

inline constexpr std::string_view kSafetensorsEnding = ".safetensors";

}  // namespace dcp
