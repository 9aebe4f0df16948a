// The built-in maps, and one map: its text, or what its sizes are.
#pragma once

#include <string>

#include "request/map_flags.h"

namespace dcp::cmd {

struct MapsOptions {
  std::string map;
  MapFlags flags;
};

int list_maps(const Context& context);
int show_map(const MapsOptions& o, const Context& context);

}  // namespace dcp::cmd
