#include "catalog/kind.h"

#include <algorithm>

namespace dcp {
namespace {

constexpr KindTraits kTraits[] = {
#define DCP_KIND(id, input, ...) {__VA_ARGS__},
#include "catalog/kinds.def"
};

}  // namespace

const KindTraits& traits_of(CheckpointKind kind) { return kTraits[static_cast<size_t>(kind)]; }

bool is_metadata_name(std::string_view name) {
  return std::ranges::any_of(kTraits, [&](const KindTraits& t) { return !t.metadata_ending.empty() && name.ends_with(t.metadata_ending); });
}

}  // namespace dcp
