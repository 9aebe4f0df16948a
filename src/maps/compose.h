// Two maps in a row: what the second takes of what the first makes, taken from the sources of the first. So a run goes from trainer to
// trainer through the published names, of which no byte is written.
#pragma once

#include <span>
#include <vector>

#include "base/limits.h"
#include "maps/index_map.h"

namespace dcp::maps {

// Sources of `second` are places in `first`; those of the result are the sources of `first`. Throws map_axes_differ where the axes that the two
// give a tensor between them are not parts of one another, map_too_many.
std::vector<IndexMap> compose(std::span<const IndexMap> second, std::span<const IndexMap> first, const Limits& limits);

}  // namespace dcp::maps
