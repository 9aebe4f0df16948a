#include "catalog/kind.h"

namespace dcp {
namespace {

constexpr KindTraits kTraits[] = {
#define DCP_KIND(id, input, ...) {__VA_ARGS__},
#include "catalog/kinds.def"
};

}  // namespace

const KindTraits& traits_of(CheckpointKind kind) { return kTraits[static_cast<size_t>(kind)]; }

}  // namespace dcp
