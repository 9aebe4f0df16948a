// dcpctl reshard: a new DCP folder laid out for another number of ranks.

#include "app/layout_request.h"
#include "commands/writer.h"
#include "line/commands.h"
#include "report/dcp_output.h"
#include "request/model_file.h"

namespace dcp::cmd {
namespace {

constexpr const char* kText =
    R"text(Rewrites CKPT for N ranks, or for as many as it has, one file per rank, without starting any. Tensors that are sharded in CKPT are split on dim 0 as FSDP2
does; those stored whole beside them (buffers, replicated tensors) stay whole; if nothing in CKPT is sharded, all tensors are split. Python
objects are copied as they are.

Every CRC in the checkpoint is checked on the way, and every tensor gets a new one. OUT appears whole or not at all.

  dcpctl reshard step-1000 step-1000-on-8 --world-size 8
  dcpctl reshard step-1000 merged --world-size 1 --model-only
  dcpctl reshard step-1000 on-64 --world-size 64 --dry-run
  dcpctl reshard step-1000 as-before --like step-10

Other layouts are given as DTensor placements on a device mesh. Ranks are numbered along the mesh, its last dim fastest. The placements of a
tensor are applied from left to right: shard(D) splits what is left for the rank of dim D as torch.chunk does, strided(D) is FSDP over a
later shard(D) of the same dim (_StridedShard), replicate leaves it whole. With names, DIM:PLACEMENT, unnamed dims replicate.

  dcpctl reshard step-1000 out --mesh 2x4 --mesh-dims dp,tp \
    --placements '*.step=replicate,replicate' \
    --placements '*.wo.weight=shard(0),shard(1)' \
    --placements '*=strided(0),shard(0)'

A --layout file is a JSON object with the same settings; each member is optional, and globs are matched in order:

  {"world_size": 8, "mesh": [2, 4], "mesh_dims": ["dp", "tp"], "like": "CKPT2",
   "placements": {"*.step": "replicate,replicate", "*.norm.*": ["dp:shard(0)"],
                  "*": ["strided(0)", "shard(0)"]}}

The first of these that applies to a tensor decides its boxes: placements, --like, the default.)text";

struct Options {
  WriterFlags writer;
  LayoutRequest layout;
  FolderFlags folder;
};

OutputRequest output(const Options& o) {
  check_folder_name(o.writer.out);
  return o.folder.request(o.writer.out, o.layout);
}

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

void add_flags(Command& c, Context& context, Options& o) {
  add_writer_keys(c, context, o.writer, "Folder to write");
  add_layout(c, o.layout);
  add_folder(c, o.folder);
  const Choices<std::optional<maps::OptimizerForm>> forms{{"flat", maps::OptimizerForm::kFlat}, {"nested", maps::OptimizerForm::kNested}};
  c.choice("--optimizer", o.writer.optimizer, forms, "FORM",
           "Give the optimizer's state this form of torch's get_optimizer_state_dict: flat (flatten_optimizer_state_dict=True, which "
           "torchtitan saves) or nested (its default)")
      .excludes("--map");
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
