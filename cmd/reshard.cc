// dcpctl reshard: a new DCP folder laid out for another number of ranks.

#include "commands.h"
#include "dcp_output.h"
#include "layout_flags.h"
#include "output_name.h"
#include "writer.h"

namespace dcp::cmd {
namespace {

constexpr const char* kText =
    R"text(Writes CKPT anew for N ranks, one file a rank, without starting any. What is sharded in CKPT is split on dim 0 as FSDP2 does; what it
stores whole beside that (buffers, replicated tensors) stays whole; a CKPT in which nothing is sharded is split throughout. Python
objects are copied as they are.

Every CRC that the checkpoint holds is checked on the way, and every tensor gets a new one. OUT appears whole or not at all.

  dcpctl reshard step-1000 step-1000-on-8 --world-size 8
  dcpctl reshard step-1000 merged --world-size 1 --model-only
  dcpctl reshard step-1000 on-64 --world-size 64 --dry-run
  dcpctl reshard step-1000 as-before --like step-10

Other layouts are placements on a device mesh, as DTensor has them. Ranks are numbered through the mesh, its last dim fastest. The placements
of a tensor are applied from left to right: shard(D) splits what the rank still has of dim D as torch.chunk does, strided(D) is FSDP over a
later shard(D) of the same dim (_StridedShard), replicate leaves it. With names, DIM:PLACEMENT, dims that are not named replicate.

  dcpctl reshard step-1000 out --mesh 2x4 --mesh-dims dp,tp \
    --placements '*.step=replicate,replicate' \
    --placements '*.wo.weight=shard(0),shard(1)' \
    --placements '*=strided(0),shard(0)'

A --layout file is a JSON object of the same, each member optional, the order of globs kept:

  {"world_size": 8, "mesh": [2, 4], "mesh_dims": ["dp", "tp"], "like": "CKPT2",
   "placements": {"*.step": "replicate,replicate", "*.norm.*": ["dp:shard(0)"],
                  "*": ["strided(0)", "shard(0)"]}}

A tensor takes its boxes from the first of these that has some for it: placements, --like, the default.)text";

struct Options {
  WriterFlags writer;
  LayoutRequest layout;
  DcpFlags dcp;
};

OutputRequest output(const Options& o) {
  check_folder_name(o.writer.out);
  return {.path = o.writer.out, .kind = OutputRequest::Kind::kDcp, .layout = o.layout, .torch = o.dcp.target()};
}

void add_flags(Command& c, Context& context, Options& o) {
  add_writer_keys(c, context, o.writer, "DCP folder to write");
  add_layout(c, o.layout);
  add_dcp(c, o.dcp);
  add_writer_writing(c, o.writer);
}

}  // namespace

void add_reshard(Command& c, Context& context) {
  auto options = std::make_shared<Options>();
  c.details = kText;
  add_flags(c, context, *options);
  run_as_writer(c, context, options->writer, [options] { return output(*options); });
}

}  // namespace dcp::cmd
