// dcpctl consolidate: a sharded checkpoint becomes one full-model file, or a folder of safetensors shards.
#include <filesystem>

#include "app/publishing.h"
#include "commands/writer.h"
#include "line/commands.h"
#include "line/option_values.h"
#include "request/model_file.h"

namespace dcp::cmd {
namespace {

constexpr const char* kText = R"(Writes what torch would load from CKPT as one file. The ending of OUT selects the form:

  OUT.pt .pth .bin     a torch.save file with the nesting of the trainer's state dict; Python objects are kept
  OUT.safetensors      tensors only
  OUT.npz              tensors only, for numpy; bfloat16 and float8 as unsigned integers, unless --dtype float32 converts them
  OUT/                 with --max-shard-size: safetensors shards and model.safetensors.index.json
  OUT/                 with --assets BASE: a model for transformers and vLLM, in shards of 5 GB; BASE is a folder with its configuration
                       and tokenizer. Only the model is written, under the published names: --model-only and --map auto are implied

Every CRC in the checkpoint is checked on the way; a hole, a missing file or damaged bytes end the command and leave no output. Memory stays
under --max-memory whatever the model's size. OUT appears whole or not at all.

  dcpctl consolidate step-1000 model.pt --model-only
  dcpctl consolidate step-1000 model.safetensors --model-only
  dcpctl consolidate step-1000 hf/ --assets base-model/
  dcpctl consolidate step-1000 model.pt --model-only --expect base.safetensors
  dcpctl consolidate step-1000 all.pt --dry-run
  dcpctl consolidate step-1000 model.safetensors --model-only --dtype bf16 \
    --dtype-rule '*.norm.weight=keep')";

struct Options {
  WriterFlags writer;
  ModelFileFlags file;
};

OutputRequest output(const Options& o, Context& context) {
  const Replace replace = o.writer.force ? Replace::kYes : Replace::kNo;
  if (!o.file.assets.empty() && context.leads())
    check_publishable({.source = o.writer.source.path, .assets = o.file.assets, .output = o.writer.out, .replace = replace}, context);
  if (auto file = model_file(o.writer.out, o.file)) return *file;
  const std::string& out = o.writer.out;
  check_format_written(out);
  Problem p = make_problem(ProblemId::usage, {.path = out});
  const std::string ending = std::filesystem::path(out).extension();
  p.what = (ending.empty() ? "no ending" : "'" + escaped(ending) + "' is no ending") + " that says what to write: .safetensors, .pt, .npz";
  if (ending.empty()) {
    std::string line = "dcpctl convert";
    bool is_behind = false;  // the command's name
    for (const std::string& word : context.words)
      if (word == "--json") continue;
      else if (is_behind || word.starts_with('-')) line += " " + shell_word(word);
      else is_behind = true;
    p.hint = "'" + line + "' writes a DCP folder, --assets BASE one for transformers and vLLM, --max-shard-size SIZE shards";
  }
  if (out == "-" || out.starts_with("/dev/")) p.hint = "a model is written at several places at once, so it cannot go into a pipe";
  throw Error(std::move(p));
}

void add_flags(Command& c, Context& context, Options& o) {
  add_writer_keys(c, context, o.writer, "Output: .pt, .pth, .bin, .safetensors, .npz, or a folder with --max-shard-size or --assets");
  add_model_file(c, o.file);
  c.find("--assets")->help += ", and --model-only without --root";
  add_fill(c, o.writer);
  add_writer_writing(c, o.writer);
}

}  // namespace

void add_consolidate(Command& c, Context& context) {
  auto options = std::make_shared<Options>();
  c.details = kText;
  add_flags(c, context, *options);
  c.before_rights = [options] {
    options->writer.select.model_only |= !options->file.assets.empty() && options->writer.select.root.empty();
  };
  run_as_writer(c, context, options->writer, [options, &context] { return output(*options, context); });
}

}  // namespace dcp::cmd
