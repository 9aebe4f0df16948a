// dcpctl diff: whether two checkpoints are equal.
#include "app/diff.h"

#include "base/file_names.h"
#include "line/commands.h"
#include "line/exit_status.h"
#include "line/option_values.h"
#include "line/text_file.h"
#include "report/diff_report.h"
#include "report/page/page.h"
#include "report/selection_report.h"
#include "request/dtype_flags.h"
#include "request/key_flags.h"
#include "request/map_flags.h"
#include "request/ranks_flags.h"
#include "request/source.h"

namespace dcp::cmd {
namespace {

constexpr const char* kText =
    R"(Compares the state dicts of two checkpoints, whatever their kinds, shardings and files are: a folder of 64 ranks with one safetensors
file, for example. Exit code 0: they are equal; 1: they differ; 2 and more: one of them could not be read. The verdict comes first, then
what differs; layers, and other keys that differ only in numbers, share a row with the part of their elements that differs, the largest
difference and where it is, unless -v asks for each.

  - KEY      only in A
  + KEY      only in B
  ~ KEY      in both, with another dtype, shape or value, and by how much

Tensors are compared by their bytes, and if these differ, by their values. Elements with the same bytes are equal, even NaNs; 0.0 and -0.0
are equal. With --rtol and --atol, values that are close count as equal, as in torch.allclose: |a - b| <= atol + rtol * |b|. Relative errors
are relative to B, where that is not 0.

Objects are compared as values, whatever pickled them: 3 and 3.0 differ. An object that an older torch saved whole equals the items that a
newer torch saves of it. Objects that the other format cannot hold are named and do not count.

Options that select keys and names apply to both sides: --root to a side that has it, --rename to both or to the side where it makes keys
match. --map converts each side with a trainer's names to the published form of the model, and compares the models alone unless options say
which keys; the config.json of either side is that of both if the other has none. Rules that match none of a side's names apply to
the published names.

  dcpctl diff step-1000 all.pt
  dcpctl diff step-1000 step-10 --summary
  dcpctl diff step-1000 step-10 model.norm.weight
  dcpctl diff step-1000 model.safetensors --model-only --compare-as bfloat16
  dcpctl diff step-1000 step-10 --rtol 1e-5 --atol 1e-8 --json)";

struct Options {
  SourceFlags a;
  std::vector<std::string> words;
  std::string b, step_b, max_memory, rtol = "0", atol = "0", compare_as, html;
  FieldFlags fields;
  KeyFlags keys;
  MapFlags map;
  bool equal_nan = false, raw = false, keys_only = false, summary = false, silent = false;
  unsigned threads = 0;
};

// Where only one of the two has a config.json beside it, it is that of both: they are to be the same model.
std::string config_of_one(const Options& o, const Context& context) {
  const auto found = [&](const std::string& path) {
    const auto facts = context.store.facts(path);
    const std::string folder = facts && facts->kind == FileKind::kDirectory ? path : folder_around(path);
    const std::string config = folder + "/config.json";
    return context.store.facts(config) ? config : "";
  };
  const std::string a = o.a.step.empty() ? found(o.a.path) : "", b = o.step_b.empty() ? found(o.b) : "";
  return a.empty() ? b : b.empty() ? a : "";
}

DiffRequest request_of(const Options& o, const Context& context) {
  DiffRequest request{
      .a = {.source = o.a.request(), .ranks = {}, .max_memory = reading_cap(o.max_memory), .threads = o.threads},
      .b = {},
      .select = o.keys.select_options(context),
      .map = o.map.request(),
      .tolerance = {.relative = parse_tolerance(o.rtol, "--rtol"), .absolute = parse_tolerance(o.atol, "--atol"), .equal_nan = o.equal_nan},
      .compare_as = {},
      .raw = o.raw,
      .keys_only = o.keys_only};
  if (!o.compare_as.empty()) request.compare_as = parse_dtype(o.compare_as);
  if (request.map.is_given() && request.map.config.empty()) request.map.config = config_of_one(o, context);
  request.b = request.a;
  request.b.source.path = o.b;
  request.b.source.step = o.step_b;
  return request;
}

int run(const Options& o, Context& context) {
  if (o.silent) context.prints = false, context.common.progress = ProgressForm::kNone;
  DiffResult result;
  const DiffPaths paths{.a = o.a.path, .b = o.b};
  const int exit = run_reported(context, {.source = o.a.path}, [&] {
    for (const std::string& side : {o.a.path, o.b}) check_page(context, o.html, side);
    try {
      diff(request_of(o, context), context, result);
    } catch (const Error& e) {
      const bool is_b = e.problem().place.path == o.b && (o.a.path != o.b || !o.a.step.empty());
      throw Error(is_b ? with_option_of_b(e.problem()) : e.problem());
    }
    if (paths.a == paths.b && o.a.step == o.step_b && o.keys.rules.size() > 1)
      context.info("'" + escaped(paths.a) + "' is compared with itself: several keys select, they are not compared with each other");
    note_left_out(result, context);
    describe_unmatched(context, unmatched_lines(result.unmatched));
    if (!o.html.empty()) save_page(context, o.html, diff_html(result, {.a = result.a.checkpoint, .b = result.b.checkpoint}));
    if (context.common.json) context.print(diff_document(result, paths));
    else if (o.fields.format != RowFormat::kNone) diff_rows(result, o.fields, context);
    else
      print_diff(result, {.a = result.a.checkpoint, .b = result.b.checkpoint},
                 o.summary                    ? DiffRows::kNone
                 : context.common.verbose > 0 ? DiffRows::kAll
                                              : DiffRows::kFolded,
                 context);
    return diff_document(result, paths);
  });
  return exit == 0 && !result.equal() ? static_cast<int>(Exit::kAnswerNo) : exit;
}

}  // namespace

void add_diff(Command& c, Context& context) {
  auto options = std::make_shared<Options>();
  Options& o = *options;
  c.details = kText;
  add_source(c, context, o.a);
  c.arguments.front().value = "A";
  c.argument("B", o.b, "The checkpoint to compare with, of any kind").is_source().reads().is_required();
  c.argument("WORD", o.words, "A key or a glob, as of --include: the others are not compared").offers(Offer::kKeys);
  c.find("--step")->help = "A is a run folder: take step N, or 'latest' (the newest complete one)";
  c.option("--step-b", o.step_b, "N|latest", "Like --step, for B").opens(Access::kSteps).offers(Offer::kSteps).in("Source");
  add_max_memory(c, o.max_memory, "Reading");
  add_threads(c, o.threads, "Reading");
  const std::string how = "How values are compared";
  c.option("--rtol", o.rtol, "NUMBER", "Values may differ by this fraction of B's (default: 0)").in(how);
  c.option("--atol", o.atol, "NUMBER", "Plus this absolute amount (default: 0)").in(how);
  c.flag("--equal-nan", o.equal_nan, "Any two NaNs are equal").in(how);
  c.option("--compare-as", o.compare_as, "DTYPE", "Convert floating-point tensors of both sides to DTYPE first")
      .also({"--dtype"})
      .offers(Offer::kDtypes)
      .in(how);
  c.flag("--raw", o.raw, "Convert quantized tensors, too: packed weights, and float8 that has a scale").needs("--compare-as").in(how);
  c.flag("--keys-only", o.keys_only, "Compare keys, dtypes, shapes and objects alone: no tensor is read").in(how);
  c.flag("--summary", o.summary, "The verdict alone").in("Output");
  c.option("--html", o.html, "FILE", "Also write a page with pictures to FILE: which layers changed, and by how much")
      .writes()
      .in("Output");
  c.flag("--silent", o.silent, "Print nothing, not even why one cannot be read: the exit code alone, as of cmp -s")
      .excludes("--json")
      .in("Output");
  add_fields(c, o.fields, kDiffFields);
  for (const char* other : {"--summary", "--silent"}) c.find("--format")->excludes(other);
  add_key_flags(c, o.keys);
  add_strict(c, o.keys);
  add_map(c, o.map);
  c.find("--config")->needs("--map");
  // A map is of a model; what else to compare is said.
  c.before_rights = [&o, &c, &context] {
    for (const std::string& word : o.words) {
      if (context.store.facts(word)) fail(ProblemId::usage, {}, "a third checkpoint '" + word + "'", "two, and keys behind them");
      o.keys.rules.push_back({KeyRule::Kind::kInclude, word});
    }
    const bool is_told = !o.keys.rules.empty() || !o.keys.select.root.empty() || c.find("--unmapped")->count() > 0;
    o.keys.select.model_only |= !o.map.map.empty() && o.map.map != "none" && !is_told;
  };
  add_common(c, context.common, true);
  c.find("--format")->excludes("--json");
  c.find("-v")->help = "Each key in a row of its own, and more details on stderr";
  c.pages = true;
  c.run = by_rank_0([options, &context] { return run(*options, context); });
}

}  // namespace dcp::cmd
