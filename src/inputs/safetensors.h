// safetensors as a checkpoint: a single file; a Hugging Face folder with an index; the shards of torch's HuggingFaceStorageWriter.
#pragma once

#include <string_view>

namespace dcp {

inline constexpr std::string_view kSafetensorsEnding = ".safetensors";
inline constexpr std::string_view kIndexEnding = ".safetensors.index.json";

}  // namespace dcp
