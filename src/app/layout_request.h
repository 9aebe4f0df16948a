// Which ranks get which boxes of a DCP folder: a number of ranks, a mesh with placements, another checkpoint to be like, or a file of that.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "app/world.h"
#include "catalog/catalog.h"
#include "plan/dcp_layout.h"

namespace dcp {

struct LayoutRequest {
  uint32_t world_size = 0;  // 0: not given
  std::string mesh, mesh_dims, like, file;
  std::vector<std::string> placements;  // GLOB=PLACEMENTS
  bool operator==(const LayoutRequest&) const = default;
};

// The checkpoint that a layout file names, if it names one: a path that the command line does not show.
std::string checkpoint_of_layout(Io& io, const std::string& file);

struct RequestedLayout {
  DcpLayoutOptions options;
  std::unique_ptr<const Catalog> like;  // options.like, if any
};
// Opens the checkpoint to be like. `memory_bytes`: that its metadata may take. Throws usage, and what opening throws.
RequestedLayout requested_layout(const LayoutRequest& request, Io& io, uint64_t memory_bytes);

}  // namespace dcp
