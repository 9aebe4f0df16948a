// The text of a map becomes its lines. What lines mean together is the proof's.
#pragma once

#include "maps/model_map.h"

namespace dcp::maps {

// Throws map_syntax, and over_limit for what is too long, too many or nested too deep.
ModelMap parse(std::string_view text, std::string name, const Limits& limits);

}  // namespace dcp::maps
