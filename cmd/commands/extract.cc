// dcpctl extract: one tensor or object of a checkpoint, as a file, as text, or on standard output.
#include <algorithm>
#include <filesystem>
#include <iterator>

#include "base/text.h"
#include "line/commands.h"
#include "line/text_file.h"
#include "report/extract_value.h"
#include "request/ranks_flags.h"

namespace dcp::cmd {
namespace {

constexpr const char* kDetails =
    R"(Takes the tensor or object KEY out of a checkpoint of any kind, however the tensor is sharded. Without OUT it is printed: a tensor as
numpy prints it, a large one with only the ends of its dims, an object as Python prints it; nothing in it is executed. Of a KEY that is a
dict, such as optimizer.param_groups, or a glob, all keys below it or that match it are printed, with their values.

Several keys are printed in the same way: a word behind KEY is OUT only if it ends like a file of these formats, or is a path.

OUT (or -o) is a file, whose ending selects the format: .npy, .pt (torch.load returns the tensor or object itself), .safetensors, .json,
.txt, or .raw, the elements alone, row-major and little-endian. A .npz, .safetensors or .pt file holds several tensors, of a dict or a glob;
--model-only takes the model's alone.
numpy has no bfloat16 and no float8: .npy and .npz files hold their bits as unsigned integers, unless --dtype float32 converts them.

--slice accepts what numpy and torch accept between brackets: integers, START:STOP:STEP and '...', with commas between dims. Only the bytes
of the slice are read, so the CRC, which covers the whole record, is not checked. Steps must be above 0; new axes, lists and masks are
refused.

  dcpctl extract step-1000 model.norm.weight
  dcpctl extract step-1000 model.norm.weight --slice ':4'
  dcpctl extract step-1000 model.norm.weight --stats
  dcpctl extract step-1000 model.norm.weight --head 4
  dcpctl extract step-1000 train_state
  dcpctl extract step-1000 model.norm.weight norm.npy --dtype float32
  dcpctl extract step-1000 'model.layers.0.*' layer0.npz --dtype float32
  dcpctl extract step-1000 model.norm.weight --format raw -o - | sha256sum)";

constexpr std::pair<const char*, ExtractForm> kEndings[] = {
    {".npy", ExtractForm::kNpy},   {".npz", ExtractForm::kNpz},   {".pt", ExtractForm::kTorch},
    {".pth", ExtractForm::kTorch}, {".bin", ExtractForm::kTorch}, {".raw", ExtractForm::kRaw},
    {".txt", ExtractForm::kText},  {".json", ExtractForm::kJson}, {".safetensors", ExtractForm::kSafetensors}};

// What the name of a file says. nullopt: nothing.
std::optional<ExtractForm> form_named(const std::string& path) {
  const std::string ending = lowered(std::filesystem::path(path).extension().native());
  const auto known = std::ranges::find(kEndings, ending, [](const auto& e) { return std::string_view(e.first); });
  return known == std::end(kEndings) ? std::nullopt : std::optional(known->second);
}

ExtractForm form_of(const ExtractOptions& o, const Context& context) {
  if (o.form != ExtractForm::kDefault) {
    if (o.out.empty() && !o.is_text())
      fail(ProblemId::usage, {}, "--format without -o, and the format is binary", "-o FILE, or -o - for standard output");
    return o.form;
  }
  if (!o.to_file()) return context.common.json ? ExtractForm::kJson : ExtractForm::kText;
  if (const auto form = form_named(o.out)) return *form;
  fail(ProblemId::usage, {.path = o.out}, "a name that does not say the format",
       ".npy, .npz, .pt, .safetensors, .raw, .txt or .json at its end, or --format");
}

// Of the words behind KEY one may be OUT; the others are further keys.
void understand_words(ExtractOptions& o, Option& out, const Context& context) {
  const auto is_path = [&](const std::string& word) {
    if (word == "-" || o.form != ExtractForm::kDefault || form_named(word) || word.find('/') != word.npos) return true;
    return context.store.facts(word).has_value();
  };
  std::ranges::copy_if(out.given, std::back_inserter(o.more), [&](const std::string& word) { return !is_path(word); });
  std::erase_if(out.given, [&](const std::string& word) { return !is_path(word); });
  if (out.given.size() > 1) fail(ProblemId::usage, {}, "several files to write", "one");
  if (!out.given.empty()) o.out = out.given.front();
  if (o.more.empty()) return;
  if (!o.slice.empty() || o.stats) fail(ProblemId::usage, {}, (o.stats ? "--stats" : "--slice") + std::string(" with several keys"), "one");
}

// Of options that concern a file.
void check_output(const Command& c, const ExtractOptions& o) {
  const Option& out = c.arguments.back();
  const auto given = [&](const char* name) { return std::ranges::any_of(c.given, [&](const Option* g) { return g->name() == name; }); };
  if (out.count() > 0 && given("--output")) fail(ProblemId::usage, {}, "OUT and --output", "one of them");
  if (out.count() > 0 && o.stats) fail(ProblemId::usage, {}, "OUT and --stats", "one of them");
  for (const char* name : {"--force", "--no-sync"})
    if (given(name) && o.out.empty()) fail(ProblemId::usage, {}, std::string(name) + " without OUT", "a file to write");
}

int run(ExtractOptions o, Context& context) {
  o.form = o.stats ? ExtractForm::kText : form_of(o, context);
  if (o.out == "-" && context.common.json && o.form != ExtractForm::kJson)
    fail(ProblemId::usage, {}, "-o - with --json", "one of them: both write to stdout");
  if (o.form == ExtractForm::kNpz && !o.to_file()) fail(ProblemId::usage, {}, "npz without a file, which is written in no order", "OUT");
  if (o.to_file() && !o.is_text()) return extract_file(o, context);
  return run_reported(context, {.source = o.source.path, .output = o.to_file() ? o.out : ""},
                      [&] { return o.stats ? extract_stats(o, context) : extract_value(o, context); });
}

}  // namespace

void add_extract(Command& c, Context& context) {
  auto options = std::make_shared<ExtractOptions>();
  ExtractOptions& o = *options;
  const std::string what = "Which part", output = "Format";
  c.details = kDetails;
  add_source(c, context, o.source);
  c.argument("KEY", o.key, "The tensor or object, by its full name; a dict, or a glob of several")
      .offers(Offer::kKeys)
      .or_empty()
      .is_required();
  const auto take_output = [&o, &c](const std::string& file) { return c.pages = false, o.out = file, true; };
  Option& out = c.argument("OUT", o.more, "Write to this file, as with -o; a word that is no path is a further KEY").writes();
  out.take = [&c](const std::string& file) { return c.pages = c.pages && file != "-" && !form_named(file), true; };  // a stream is no page
  c.before_rights = [&o, &out, &context] { understand_words(o, out, context); };
  c.option("--slice", o.slice, "SLICE", "Only that part of the tensor, such as '0:4, :8' or '-1'").in(what);
  c.option(
       "--head",
       [&o](const std::string& n) {
         uint64_t count = 0;
         return parse_number(n, count, {1, INT64_MAX}) && !(o.slice = ":" + n).empty();
       },
       "N", "The first N elements, or rows: --slice ':N'")
      .excludes("--slice")
      .in(what)
      .expected = "a number from 1 on";
  c.flag("--model-only", o.model_only, "Of a dict, a glob or several keys what belongs to the model, its root stripped").in(what);
  c.flag("--stats", o.stats, "Bounds, mean, deviation, NaN, inf and zero counts and magnitudes instead of values").in(what);
  c.option("-o,--output", take_output, "FILE", "Write to FILE; - is standard output").writes().excludes("--stats").in(output);
  const Choices<ExtractForm> forms{
      {"npy", ExtractForm::kNpy}, {"npz", ExtractForm::kNpz},   {"pt", ExtractForm::kTorch}, {"safetensors", ExtractForm::kSafetensors},
      {"raw", ExtractForm::kRaw}, {"text", ExtractForm::kText}, {"json", ExtractForm::kJson}};
  c.choice("--format", o.form, forms, "FORM",
           "As npy, npz, pt, safetensors, raw, text or json (default: what the ending of FILE says, or text)")
      .excludes("--stats")
      .in(output);
  c.option("--dtype", o.dtype, "D", "Convert a floating-point tensor to D, such as float32 (fp32)")
      .offers(Offer::kDtypes)
      .excludes("--stats")
      .in(output);
  c.flag("--raw", o.raw, "Also convert a quantized tensor, ignoring its scale: packed weights, and float8 that has a scale")
      .needs("--dtype")
      .in(output);
  c.flag("--force", o.force, "Replace FILE when the new one is complete").also({"--overwrite"}).in(output);
  c.flag("--no-verify", o.no_verify, "Do not check CRCs").in("Reading");
  c.flag("--no-sync", o.no_sync, "Do not wait for the disk before FILE appears").in(output);
  add_threads(c, o.threads, "Reading");
  add_max_memory(c, o.max_memory, "Reading");
  add_common(c, context.common, true);
  c.pages = true;
  c.run = by_rank_0([options, &c, &context] {
    check_output(c, *options);
    return run(*options, context);
  });
}

}  // namespace dcp::cmd
