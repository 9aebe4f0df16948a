// dcpctl consolidate: a sharded checkpoint becomes one full-model file, or a folder of safetensors shards.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>

#include "assets.h"
#include "commands.h"
#include "plan/layout.h"
#include "writer.h"

namespace dcp::cmd {
namespace {

constexpr const char* kText = R"(Writes what torch would load from CKPT as one file. OUT says the form:

  OUT.pt .pth .bin     a torch.save file with the nesting of the trainer's state dict; Python objects are kept
  OUT.safetensors      tensors only
  OUT/                 with --max-shard-size: safetensors shards and model.safetensors.index.json

Every CRC that the checkpoint holds is checked on the way; a hole, a missing file or damaged bytes end the command and leave no
output. Memory stays under --max-memory whatever the model's size. OUT appears whole or not at all.

  dcpctl consolidate step-1000 model.pt --model-only
  dcpctl consolidate step-1000 model.safetensors --model-only
  dcpctl consolidate step-1000 hf/ --model-only --max-shard-size 5GB --assets base-model/
  dcpctl consolidate step-1000 model.pt --model-only --expect base.safetensors
  dcpctl consolidate step-1000 all.pt --dry-run
  dcpctl consolidate step-1000 model.safetensors --model-only --dtype bf16 --dtype-rule '*.norm.weight=keep')";

enum class Form : uint8_t { kTorch, kSafetensors, kShards };

struct Options {
  WriterFlags writer;
  std::string max_shard_size, assets;
  bool weights_only_safe = false, mcore_shapes = false;
};

Form form_of(const Options& o) {
  const std::string ending = std::filesystem::path(o.writer.out).extension();
  if (!o.max_shard_size.empty()) {
    if (ending == ".pt" || ending == ".pth" || ending == ".safetensors")
      fail(ProblemId::usage, {.path = o.writer.out}, "a file name together with --max-shard-size", "a folder name");
    return Form::kShards;
  }
  if (ending == ".pt" || ending == ".pth" || ending == ".bin") return Form::kTorch;
  if (ending == ".safetensors") return Form::kSafetensors;
  fail(ProblemId::usage, {.path = o.writer.out}, ending.empty() ? "no ending" : "'" + ending + "'",
       "OUT.pt, .pth or .bin, OUT.safetensors, or a folder with --max-shard-size SIZE");
}

Plan make_plan(const Options& o, Form form, const Context& context, const Catalog& catalog, const Resolved& resolved, const Selection& selection) {
  LayoutOptions layout;
  layout.units.verify = !o.writer.no_verify;
  layout.weights_only_safe = o.weights_only_safe;
  layout.mcore_shapes = o.mcore_shapes;
  if (form == Form::kTorch) return plan_torch(catalog, resolved, selection, layout);
  if (form == Form::kShards) layout.max_shard_bytes = std::max<uint64_t>(parse_size(o.max_shard_size), 1);
  Plan plan = plan_safetensors(catalog, resolved, selection, layout);
  if (!o.assets.empty()) copy_assets(o.assets, context, plan);
  return plan;
}

int run(const Options& o, Context& context, WriteReport& report) {
  const Form form = form_of(o);
  if (!o.assets.empty() && form != Form::kShards) fail(ProblemId::usage, {.path = o.writer.out}, "--assets with one file", "a folder, with --max-shard-size SIZE");
  return write_output(o.writer, context, report, {.folder = form == Form::kShards, .blobs = form == Form::kTorch},
                      [&](const Catalog& catalog, const Resolved& resolved, const Selection& selection) { return make_plan(o, form, context, catalog, resolved, selection); });
}

void add_flags(CLI::App& c, Options& o) {
  add_writer_keys(c, o.writer, "Output: .pt, .pth, .bin, .safetensors, or a folder with --max-shard-size");
  c.add_flag("--weights-only-safe", o.weights_only_safe, "Leave out objects that torch.load(weights_only=True) refuses")->group("Which keys");
  c.add_option("--max-shard-size", o.max_shard_size, "Write a folder of safetensors shards of at most SIZE")->option_text("SIZE")->group("Writing");
  c.add_option("--assets", o.assets, "With --max-shard-size: copy configuration, tokenizer and generation files from the folder DIR")->option_text("DIR")->group("Writing");
  c.add_flag("--mcore-shapes", o.mcore_shapes, "Give tensors the shapes of Megatron's mcore_data, not those that torch sees")->group("Writing");
  add_writer_writing(c, o.writer);
}

}  // namespace

void add_consolidate(CLI::App& app, Context& context) {
  auto options = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand("consolidate", "One full-model file from a sharded checkpoint");
  command->footer(kText);
  add_flags(*command, *options);
  add_common(*command, context, true);
  command->callback([options, &context] {
    context.command = "consolidate";
    context.run = [options, &context] {
      WriteReport report(options->writer.source.path, options->writer.out);
      return report.around(context, [&] { return run(*options, context, report); });
    };
  });
}

}  // namespace dcp::cmd
