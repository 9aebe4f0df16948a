#include "app/requests.h"

#include <algorithm>
#include <filesystem>

namespace dcp {

Limits SourceRequest::limits(uint64_t memory_bytes) const {
  Limits limits{.memory_bytes = memory_bytes};
  constexpr uint64_t kMax = uint64_t{1} << 56;  // 16 times as much, and sums with that, stay in 64 bits
  if (max_pickle)
    limits.blob_bytes = limits.decoded_bytes = limits.item_pickle_bytes = limits.archive_pickle_bytes = std::min(*max_pickle, kMax);
  return limits;
}

std::optional<OutputRequest::Kind> model_file_kind(const std::string& path) {
  std::string ending = std::filesystem::path(path).extension();
  for (char& c : ending) c = static_cast<char>(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);  // model.PT
  if (ending == ".safetensors") return OutputRequest::Kind::kSafetensors;
  if (ending == ".pt" || ending == ".pth" || ending == ".bin") return OutputRequest::Kind::kTorch;
  return std::nullopt;
}

}  // namespace dcp
