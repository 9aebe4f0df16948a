// Why a map can be trusted before it meets a checkpoint. Each tensor of a line expands into blocks, one per choice of summands; a block is
// the set of its axes, including the indexes in the tensor's name. Both sides of a line have the same blocks, each once, so the line is a
// bijection of elements for any sizes. And two lines that are not separated by branches or conditions have no name in common, so their
// order does not matter.
#pragma once

#include "maps/model_map.h"

namespace dcp::maps {

// Fills in what the lines imply: outer indexes, pairs, the indexes of blocks. Throws map_axes_differ, map_axis_twice, map_parts_alike,
// map_lines_overlap, map_too_many.
void prove(ModelMap& map, const Limits& limits);

}  // namespace dcp::maps
