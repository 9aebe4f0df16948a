#include "request/layout_flags.h"

#include "line/command.h"

namespace dcp::cmd {

void add_layout(Command& c, LayoutRequest& f) {
  const std::string group = "Layout";
  c.number("--world-size", f.world_size, {1u, static_cast<uint32_t>(kMaxRanks)}, "N", "Ranks to write for (default: as many as CKPT has)")
      .in(group);
  c.option("--mesh", f.mesh, "SIZES", "Device mesh of the ranks, such as 2x4, for --placements").in(group);
  c.option("--mesh-dims", f.mesh_dims, "NAMES", "Names of its dims, such as dp,tp").in(group);
  c.option("--placements", f.placements, "GLOB=PLACEMENTS",
           "Tensors whose name in the output matches GLOB get these placements, one for each mesh dim from left to right: shard(D), "
           "strided(D) or "
           "replicate; repeatable, the first match wins")
      .in(group);
  c.option("--like", f.like, "CKPT2", "Shard tensors as CKPT2 does where name and shape are the same").reads().in(group);
  Option& file = c.option("--layout", f.file, "FILE", "All of the above, from a JSON file").reads().in(group);
  file.leads_to = checkpoint_of_layout;
  for (const char* other : {"--world-size", "--mesh", "--mesh-dims", "--placements", "--like"}) file.excludes(other);
}

}  // namespace dcp::cmd
