// dcpctl convert: any checkpoint becomes a DCP folder, or one kind of model file another.

#include "commands/writer.h"
#include "line/commands.h"
#include "report/dcp_output.h"
#include "request/model_file.h"

namespace dcp::cmd {
namespace {

constexpr const char* kText = R"(Writes CKPT in another form, which OUT selects:

  OUT/                 a DCP folder for --world-size ranks (1 if not given): torch.distributed.checkpoint loads it
  OUT/                 with --to torch_checkpointing: a checkpoint of that package, a file for each item and rank, and metadata.pkl
  OUT.pt .pth .bin     a torch.save file with the nesting of the state dict; Python objects are kept
  OUT.safetensors      tensors only
  OUT.npz              tensors only, for numpy
  OUT/                 with --max-shard-size: safetensors shards and model.safetensors.index.json

A state dict in a .pt file is flattened as dcp.save does, and its nesting is recorded: format_utils dcp_to_torch restores it. From a DCP
folder to a DCP folder, reshard offers more layouts.

  dcpctl convert model.pt ckpt
  dcpctl convert model.safetensors ckpt --world-size 8 --add-root model
  dcpctl convert hf-model/ model.pt
  dcpctl convert step-1000 for-titan --to torch_checkpointing --world-size 8
  dcpctl convert rank-local-ckpt ckpt)";

struct Options {
  WriterFlags writer;
  ModelFileFlags file;
  FolderFlags folder;
  uint32_t world_size = 1;
  const Option* world_size_option = nullptr;
};

OutputRequest output(const Options& o) {
  const std::optional<OutputRequest> file = model_file(o.writer.out, o.file);
  if (!file) check_folder_name(o.writer.out);
  if (!file) return o.folder.request(o.writer.out, {.world_size = o.world_size});
  o.folder.refuse(o.writer.out);
  if (o.world_size_option->count() > 0) fail(ProblemId::usage, {.path = o.writer.out}, "--world-size with a model file", "a folder name");
  return *file;
}

void add_flags(Command& c, Context& context, Options& o) {
  add_writer_keys(c, context, o.writer, "Output: a folder, .pt, .pth, .bin, .safetensors or .npz");
  o.world_size_option = &c.number("--world-size", o.world_size, {1u, 65536u}, "N", "Number of ranks of a folder (default 1)").in("Layout");
  add_folder(c, o.folder);
  add_model_file(c, o.file);
  add_fill(c, o.writer);
  add_writer_writing(c, o.writer);
}

}  // namespace

void add_convert(Command& c, Context& context) {
  auto options = std::make_shared<Options>();
  c.details = kText;
  add_flags(c, context, *options);
  run_as_writer(c, context, options->writer, [options] { return output(*options); });
}

}  // namespace dcp::cmd
