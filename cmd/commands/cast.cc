// dcpctl cast: the same checkpoint in another dtype.

#include "commands/writer.h"
#include "line/commands.h"
#include "report/dcp_output.h"
#include "request/model_file.h"

namespace dcp::cmd {
namespace {

constexpr const char* kText =
    R"(Rewrites CKPT with the floating-point tensors of the model in --dtype, or as --dtype-rule says. Kind and layout stay the same: a DCP
folder stays a DCP folder with the same chunks on the same ranks, a .pt file a .pt file, and safetensors stay safetensors in the same number
of files, a Hugging Face folder with its configuration, which says the new dtype, and tokenizer. Optimizer state, scales, integers and Python
objects stay as they are.

The last save of a training run, for use elsewhere:

  dcpctl cast step-1000 export --dtype bfloat16 --model-only --keep-root
  dcpctl cast model.safetensors small.safetensors --dtype bf16 \
    --dtype-rule '*.norm.weight=keep')";

struct Options {
  WriterFlags writer;
  DcpFlags dcp;
  ModelFileFlags file;  // only --weights-only-safe means something: the rest is a change of kind
};

OutputRequest output(const Options& o) {
  if (!o.writer.dtypes.options().any()) fail(ProblemId::usage, {.path = o.writer.out}, "neither --dtype nor --dtype-rule", "one of them");
  std::optional<OutputRequest> file = model_file(o.writer.out, o.file);
  if (!file || file->kind == OutputRequest::Kind::kNpz) check_folder_name(o.writer.out);
  if (file) refuse_dcp_flags(o.dcp, o.writer.out);
  OutputRequest request =
      file ? std::move(*file) : OutputRequest{.path = o.writer.out, .kind = OutputRequest::Kind::kSameFolder, .torch = o.dcp.target()};
  request.same_kind = true;
  return request;
}

}  // namespace

void add_cast(Command& c, Context& context) {
  auto options = std::make_shared<Options>();
  c.details = kText;
  add_writer_keys(c, context, options->writer, "Output, of the same kind as CKPT");
  c.flag("--weights-only-safe", options->file.weights_only_safe, "Leave out objects that torch.load(weights_only=True) refuses")
      .in("Which keys");
  add_dcp(c, options->dcp);
  add_writer_writing(c, options->writer);
  run_as_writer(c, context, options->writer, [options] { return output(*options); });
}

}  // namespace dcp::cmd
