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

}  // namespace

const KindTraits& traits_of(CheckpointKind kind) { return kTraits[static_cast<size_t>(kind)]; }

bool is_vital_name(std::string_view name) {
  const std::string text(name);
  return std::ranges::any_of(kTraits, [&](const KindTraits& t) { return fnmatch(std::string(t.vital).c_str(), text.c_str(), 0) == 0; });
}

bool is_metadata_name(std::string_view name) {
  return std::ranges::any_of(kTraits, [&](const KindTraits& t) { return !t.metadata_ending.empty() && name.ends_with(t.metadata_ending); });
}

}  // namespace dcp
