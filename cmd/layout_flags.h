// The options that say which ranks get which boxes: --world-size, --mesh, --mesh-dims, --placements, --like, or a --layout file of them.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "catalog/catalog.h"
#include "context.h"
#include "plan/dcp_layout.h"

namespace dcp::cmd {

struct LayoutFlags {
  uint32_t world_size = 0;  // 0: not given
  std::string mesh, mesh_dims, like, file;
  std::vector<std::string> placements;  // GLOB=PLACEMENTS
};
void add_layout(Command& command, LayoutFlags& flags);

// The checkpoint that a --layout file names, if it names one: a path that the command line does not show.
std::string checkpoint_of_layout(Io& io, const std::string& file);

struct AskedLayout {
  DcpLayoutOptions options;
  std::unique_ptr<const Catalog> like;  // options.like, if any
};
// Opens the checkpoint of --like. `memory_bytes`: that its metadata may take. Throws usage, and what opening throws.
AskedLayout asked_layout(const LayoutFlags& flags, const Context& context, uint64_t memory_bytes);

}  // namespace dcp::cmd
