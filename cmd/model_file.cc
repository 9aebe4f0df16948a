#include "model_file.h"

#include <algorithm>
#include <filesystem>

#include "assets.h"
#include "command.h"
#include "plan/layout.h"

namespace dcp::cmd {
namespace {

Plan make_plan(const WriterFlags& writer, const ModelFileFlags& flags, ModelFileForm form, const Context& context, const Catalog& catalog,
               const Resolved& resolved, const Selection& selection) {
  LayoutOptions layout;
  layout.units.verify = !writer.no_verify;
  layout.weights_only_safe = flags.weights_only_safe;
  layout.mcore_shapes = flags.mcore_shapes;
  if (form == ModelFileForm::kTorch) return plan_torch(catalog, resolved, selection, layout);
  if (form == ModelFileForm::kShards) {
    layout.max_shard_bytes = parse_size(flags.max_shard_size);
    if (layout.max_shard_bytes == 0) fail(ProblemId::usage, {}, "--max-shard-size " + flags.max_shard_size, "more than no bytes");
  }
  Plan plan = plan_safetensors(catalog, resolved, selection, layout);
  if (!flags.assets.empty()) copy_assets(flags.assets, context, plan);
  return plan;
}

}  // namespace

void add_model_file(Command& c, ModelFileFlags& f) {
  c.flag("--weights-only-safe", f.weights_only_safe, "Leave out objects that torch.load(weights_only=True) refuses").in("Which keys");
  c.option("--max-shard-size", f.max_shard_size, "SIZE", "Write a folder of safetensors shards of at most SIZE").in("Writing");
  c.option("--assets", f.assets, "DIR", "With --max-shard-size: copy configuration, tokenizer and generation files from the folder DIR")
      .reads(Offer::kFolders)
      .in("Writing");
  c.flag("--mcore-shapes", f.mcore_shapes, "Give tensors the shapes of Megatron's mcore_data, not those that torch sees").in("Writing");
}

std::optional<ModelFileForm> model_file_form(const std::string& out, const ModelFileFlags& flags) {
  const std::string ending = std::filesystem::path(out).extension();
  if (!flags.max_shard_size.empty()) {
    if (ending == ".pt" || ending == ".pth" || ending == ".safetensors")
      fail(ProblemId::usage, {.path = out}, "a file name together with --max-shard-size", "a folder name");
    return ModelFileForm::kShards;
  }
  if (!flags.assets.empty()) fail(ProblemId::usage, {.path = out}, "--assets with one file", "a folder, with --max-shard-size SIZE");
  if (ending == ".pt" || ending == ".pth" || ending == ".bin") return ModelFileForm::kTorch;
  if (ending == ".safetensors") return ModelFileForm::kSafetensors;
  return std::nullopt;
}

int write_model_file(const WriterFlags& writer, const ModelFileFlags& flags, ModelFileForm form, Context& context, WriteReport& report,
                     const std::function<void(const Catalog&)>& check_source) {
  return write_output(writer, context, report,
                      {.folder = form == ModelFileForm::kShards,
                       .assets = flags.assets,
                       .blobs = form == ModelFileForm::kTorch,
                       .any_tensor = form == ModelFileForm::kTorch},
                      [&](const Catalog& catalog, const Resolved& resolved, const Selection& selection) {
                        if (check_source) check_source(catalog);
                        return make_plan(writer, flags, form, context, catalog, resolved, selection);
                      });
}

}  // namespace dcp::cmd
