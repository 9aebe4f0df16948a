// The built-in maps, and one map: its text, or what its sizes are.
#pragma once

#include <string>
#include <string_view>

#include "request/map_flags.h"

namespace dcp::cmd {

struct MapsOptions {
  std::string map;
  MapFlags flags;
};

// Those of models whose model_type begins so; false, and nothing is printed: there are none.
bool list_maps(std::string_view model, const Context& context);
int show_map(const MapsOptions& o, const Context& context);

}  // namespace dcp::cmd
