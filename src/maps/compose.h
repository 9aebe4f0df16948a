// Composes two maps: the result takes from the sources of the first what the second takes from its targets. So a run goes from trainer to
// trainer by way of the published names, without writing the published form.
#pragma once

#include <span>
#include <vector>

#include "base/limits.h"
#include "maps/index_map.h"

namespace dcp::maps {

// Sources of `second` are positions in `first`; sources of the result are those of `first`. Throws map_axes_differ if the two cut a tensor
// between them into axes that do not refine each other, map_too_many.
std::vector<IndexMap> compose(std::span<const IndexMap> second, std::span<const IndexMap> first, const Limits& limits);

}  // namespace dcp::maps
