// Which ranks get which boxes of a DCP folder: from a number of ranks, a mesh with placements, another checkpoint (`like`), or a layout
// file.
#pragma once

#include <memory>
#include <string>

#include "app/requests.h"
#include "catalog/catalog.h"
#include "plan/dcp_layout.h"

namespace dcp {

// The checkpoint that a layout file names, if any: a path that is not on the command line.
std::string checkpoint_of_layout(Store& store, const std::string& file);

struct RequestedLayout {
  DcpLayoutOptions options;
  std::unique_ptr<const Catalog> like;  // options.like, if any
};
// Opens the `like` checkpoint. `memory_bytes`: cap for its metadata. Throws usage, and what opening throws.
RequestedLayout requested_layout(const LayoutRequest& request, Store& store, uint64_t memory_bytes);

}  // namespace dcp
