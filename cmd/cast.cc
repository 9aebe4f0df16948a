// dcpctl cast: the same checkpoint in another dtype.

#include "commands.h"
#include "dcp_output.h"
#include "model_file.h"
#include "plan/layout.h"

namespace dcp::cmd {
namespace {

constexpr const char* kText =
    R"(Writes CKPT anew with the floating tensors of the model in --dtype, or as --dtype-rule says. Kind and layout stay: a DCP folder stays a
DCP folder with the same chunks on the same ranks, a .pt file a .pt file, safetensors stay safetensors in as many files. Optimizer state,
scales, integers and Python objects stay as they are.

The last save of a training run, for use elsewhere:

  dcpctl cast step-1000 export --dtype bfloat16 --model-only --keep-root
  dcpctl cast model.safetensors small.safetensors --dtype bf16 \
    --dtype-rule '*.norm.weight=keep')";

struct Options {
  WriterFlags writer;
  DcpFlags dcp;
  ModelFileFlags file;  // only --weights-only-safe means something: the rest is a change of kind
};

std::string_view name_of(CheckpointKind kind) {
  switch (kind) {
    case CheckpointKind::kTorch: return "a torch.save file";
    case CheckpointKind::kSafetensors: return "a safetensors file";
    case CheckpointKind::kHf: return "a folder of safetensors files";
    default: return "a DCP checkpoint";
  }
}

Plan same_layout(const Options& o, const Catalog& catalog, const Resolved& resolved, const Selection& selection) {
  if (catalog.kind == CheckpointKind::kHf) {
    refuse_dcp_flags(o.dcp, o.writer.out);
    LayoutOptions layout{.limits = {}, .units = {}, .shards_of_source = true};
    layout.units.verify = !o.writer.no_verify;
    return plan_safetensors(catalog, resolved, selection, layout);
  }
  DcpLayoutOptions layout{
      .limits = {}, .units = {}, .world_size = std::max<uint32_t>(ranks_shown(catalog), 1), .mesh = {}, .rules = {}, .source_boxes = true};
  layout.units.verify = !o.writer.no_verify;
  layout.torch = o.dcp.target();
  return plan_dcp(catalog, resolved, selection, layout);
}

// OUT's name says a file or a folder, and the checkpoint must be the same.
void check_kind(const Options& o, const std::optional<ModelFileForm>& form, CheckpointKind kind) {
  const bool same = form == ModelFileForm::kTorch         ? kind == CheckpointKind::kTorch
                    : form == ModelFileForm::kSafetensors ? kind == CheckpointKind::kSafetensors
                                                          : kind != CheckpointKind::kTorch && kind != CheckpointKind::kSafetensors;
  if (same) return;
  Problem p = make_problem(ProblemId::usage, {.path = o.writer.out}, "the name of another kind than " + std::string(name_of(kind)),
                           "the same kind");
  p.hint = "dcpctl convert and consolidate change the kind, and take --dtype too";
  throw Error(std::move(p));
}

int run(const Options& o, Context& context, WriteReport& report) {
  if (!o.writer.dtypes.options().any()) fail(ProblemId::usage, {.path = o.writer.out}, "neither --dtype nor --dtype-rule", "one of them");
  const std::optional<ModelFileForm> form = model_file_form(o.writer.out, o.file);
  if (form) refuse_dcp_flags(o.dcp, o.writer.out);
  if (form) return write_model_file(o.writer, o.file, *form, context, report, [&](const Catalog& c) { check_kind(o, form, c.kind); });
  return write_output(o.writer, context, report, o.dcp.form(),
                      [&](const Catalog& catalog, const Resolved& resolved, const Selection& selection) {
                        check_kind(o, form, catalog.kind);
                        return same_layout(o, catalog, resolved, selection);
                      });
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
  run_as_writer(c, context, options->writer, [options, &context](WriteReport& report) { return run(*options, context, report); });
}

}  // namespace dcp::cmd
