// Parses the text of a map into lines. Their joint meaning is left to the proof.
#pragma once

#include "maps/model_map.h"

namespace dcp::maps {

// Throws map_syntax, and over_limit for text that is too long, or lines too many or nested too deep.
ModelMap parse(std::string_view text, std::string name, const Limits& limits);

}  // namespace dcp::maps
