// What the text of a map must be as a whole, once its lines are read.
#pragma once

#include "maps/model_map.h"

namespace dcp::maps {

// Names, axes and ties of a line fit each other; says whether it is the line for the rest. `in_block`: of a block, as `optional` is not.
// Throws map_syntax.
void check_line(const ModelMap& map, Line& line, bool in_block);

// Words of sizes mean sizes, axes or indexes, or else keys of config.json; sizes stand after those that they are made of. Throws map_syntax.
void settle_sizes(ModelMap& map);

}  // namespace dcp::maps
