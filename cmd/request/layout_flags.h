// The options that say which ranks get which boxes: --world-size, --mesh, --mesh-dims, --placements, --like, or a --layout file with them.
#pragma once

#include "app/requests.h"
#include "line/context.h"

namespace dcp::cmd {

void add_layout(Command& command, LayoutRequest& flags);

}  // namespace dcp::cmd
