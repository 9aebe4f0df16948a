// Checks a map as a whole, once its lines are read.
#pragma once

#include "maps/model_map.h"

namespace dcp::maps {

// Checks that names, axes and ties of a line fit each other; records whether it is the line for the rest. `in_block`: inside a block, which
// `optional` is not. Throws map_syntax.
void check_line(const ModelMap& map, Line& line, bool in_block);

// Decides for each word in a size whether it means a size, an axis or an index, or else a key of config.json; sizes must follow those that
// they use. Throws map_syntax.
void settle_sizes(ModelMap& map);

}  // namespace dcp::maps
