// Why a map can be trusted before it has met a checkpoint. Each tensor of a line multiplies out into blocks, one for each choice of
// summands; a block is the set of its axes, the indexes of the tensor's name among them. Both sides of a line have the same blocks, each
// once, so the line is a bijection of elements whatever its sizes are. And two lines that are not parted by branches or conditions have no
// name in common, so that their order means nothing.
#pragma once

#include "maps/model_map.h"

namespace dcp::maps {

// Fills in what follows from the lines: their outer indexes, their pairs, the indexes of blocks. Throws map_axes_differ, map_axis_twice,
// map_parts_alike, map_lines_overlap, map_too_many.
void prove(ModelMap& map, const Limits& limits);

}  // namespace dcp::maps
