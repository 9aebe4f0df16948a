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
// The number of ranks of a source, for an output that is given none. Throws usage where its files do not say it.
uint32_t world_size_of(const LayoutRequest& request, const Catalog& source);
// Without a world size, a mesh, `like` and a file the result has no number of ranks. Opens the `like` checkpoint. `memory_bytes`: cap for its metadata. Throws usage, and what opening throws.
RequestedLayout requested_layout(const LayoutRequest& request, Store& store, uint64_t memory_bytes);

}  // namespace dcp
