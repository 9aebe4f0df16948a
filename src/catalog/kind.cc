#include "catalog/kind.h"

#include <fnmatch.h>

#include <algorithm>
#include <string>

namespace dcp {
namespace {

constexpr KindTraits kTraits[] = {
#define DCP_KIND(id, input, ...) {__VA_ARGS__},
#include "catalog/kinds.def"
};

bool ends_with(std::string_view name, std::string_view ending) { return !ending.empty() && name.ends_with(ending); }

}  // namespace

const KindTraits& traits_of(CheckpointKind kind) { return kTraits[static_cast<size_t>(kind)]; }

FileRole role_of(std::string_view name) {
  const std::string text(name);
  for (const KindTraits& t : kTraits) {
    if (fnmatch(std::string(t.vital).c_str(), text.c_str(), 0) == 0) return FileRole::kVital;
    if (ends_with(name, t.data_ending)) return t.vital.empty() ? FileRole::kModel : FileRole::kData;
    if (ends_with(name, t.metadata_ending)) return FileRole::kIndex;
    if (t.has_metadata && name.ends_with(std::string(t.metadata_ending) + ".tmp")) return FileRole::kUnfinished;
  }
  return FileRole::kOther;
}

bool is_metadata_name(std::string_view name) {
  return std::ranges::any_of(kTraits, [&](const KindTraits& t) { return ends_with(name, t.metadata_ending); });
}

bool is_sole_metadata_name(std::string_view name) {
  return std::ranges::any_of(kTraits, [&](const KindTraits& t) { return t.one_metadata && name == t.metadata_ending; });
}

}  // namespace dcp
