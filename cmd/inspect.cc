// dcpctl inspect: what is in a checkpoint. Reads the metadata and the sizes of data files; no tensor data.
#include "app/inspect.h"

#include <algorithm>
#include <filesystem>

#include "app/small_file.h"
#include "commands.h"
#include "dtype_flags.h"
#include "findings.h"
#include "inspect_mapped.h"
#include "inspect_text.h"
#include "key_flags.h"
#include "map_flags.h"
#include "ranks_flags.h"
#include "selection_report.h"
#include "source.h"
#include "stats_report.h"
#include "text_file.h"

namespace dcp::cmd {
namespace {

constexpr const char* kText =
    R"(Says what is in a checkpoint: who wrote it, which torch versions can load it, tensors, dtypes, bytes, how each tensor is
sharded, which files hold it. Reads metadata and headers only, in milliseconds; no tensor data, and no data file needs to be there.

Findings come first, then sums, then the keys on one screen: layers and what else differs in numbers only are one row, and what a trainer
keeps beside the model is folded where it would not fit. --tree and --keys show all. A data file that is missing makes the exit code 1,
one that cannot be read 4.

Where the data files are there, the pickles of objects are looked into, too: one that would run what torch.load(weights_only=True) refuses
is named with its key. With --fail-on unsafe every item's pickle is, and the exit code is 1 if one does, or cannot be looked into.

With --stats the answer is bounds, mean, deviation and the number of NaN, inf and zeros of each tensor: which layer went NaN? Then the
tensors' data is read, by units, and its CRCs are checked.

CKPT is a DCP folder or its .metadata file, a torch.save file (.pt .pth .bin .ckpt), a safetensors file, a folder of safetensors files,
one of what each rank saved (verl, SkyRL, torch_checkpointing), or with --step a run folder. What a file is, its content says.

  dcpctl inspect step-1000
  dcpctl inspect step-1000 --tree --root model
  dcpctl inspect step-1000 --keys --include 'model.*'
  dcpctl inspect step-1000 --fail-on unsafe
  dcpctl inspect step-1000 --stats 'model.*'
  dcpctl inspect step-1000 --json | jq '.tensors[].key')";

struct Options {
  SourceFlags source;
  InspectView view = InspectView::kOutline;
  std::optional<size_t> depth;
  KeyFlags keys;
  MapFlags map;
  DtypeFlags dtypes;
  FailOn fail_on;
  std::string html, max_memory, stats;
  unsigned threads = 0;
};

// What of the tensors' values is asked for, beside the rest of the answer or in its place.
std::optional<StatsResult> stats_of(const Options& o, const SelectOptions& select, Context& context) {
  if (o.stats.empty()) return std::nullopt;
  StatsResult result;
  SelectOptions plain = select;
  plain.dtypes = {};
  stats({.read = {.source = o.source.request(context), .max_memory = reading_cap(o.max_memory), .threads = o.threads},
         .select = std::move(plain),
         .glob = o.stats},
        context, result);
  if (result.tensors.empty()) context.info("no tensor for --stats '" + escaped(o.stats) + "'");
  for (const KeyStats& k : result.tensors)
    if (k.fault) context.warn(context.line_of(*k.fault));
  return result;
}

struct Answer {
  std::string document;  // the JSON, if --report asks for it
  Exit exit = Exit::kOk;
};

// What a map would make of the checkpoint.
Answer mapped_answer(const Options& o, const InspectResult& found, Context& context) {
  if (context.common.json) inspect_mapped_json(found, [&](std::string_view text) { context.print(text); });
  else inspect_mapped_text(found, o.view, context);
  Answer a;
  if (!context.common.report.empty()) inspect_mapped_json(found, [&](std::string_view text) { a.document += text; });
  check_holds(*found.map, context);
  return a;
}

// The metadata alone may be asked about; a checkpoint has its files.
Exit exit_of(const InspectResult& found, const FailOn& fail_on) {
  const bool is_metadata = std::filesystem::path(found.catalog.path).filename() == ".metadata";
  const auto& findings = found.findings;
  if (!is_metadata && std::ranges::find(findings, Severity::kError, &Problem::severity) != findings.end()) return Exit::kMachine;
  if (!is_metadata && std::ranges::find(findings, ProblemId::file_missing, &Problem::id) != findings.end()) return Exit::kAnswerNo;
  return fails(fail_on, findings) ? Exit::kAnswerNo : Exit::kOk;
}

Answer answer(const Options& o, Context& context) {
  if (!o.html.empty())
    if (auto fault = text_file_fault(context.io, {"--html", o.html, "<!doctype html>"}, o.source.path, "")) throw Error(std::move(*fault));
  SelectOptions select = o.keys.select_options(context);
  select.keep_root = true;  // where the model lies is part of the answer
  select.dtypes = o.dtypes.options();
  InspectResult found;
  inspect({.source = o.source.request(context),
           .max_memory = reading_cap(o.max_memory),
           .look_into_all = o.fail_on.unsafe(),
           .map = o.map.request(),
           .select = select},
          context, found);
  if (found.map) return mapped_answer(o, found, context);
  Answer a{.document = {}, .exit = exit_of(found, o.fail_on)};
  describe_unmatched(context, unmatched_rules(found.selection), false);
  if (!o.html.empty()) save_small_file(context, o.html, inspect_html(found), {.sync = false});
  const std::optional<StatsResult> values = stats_of(o, select, context);
  if (values && a.exit == Exit::kOk && std::ranges::any_of(values->tensors, [](const KeyStats& k) { return k.fault.has_value(); }))
    a.exit = Exit::kAnswerNo;
  const auto more = [&](JsonWriter& json) {
    if (values) stats_json(json, *values);
  };
  if (context.common.json) inspect_json(found, [&](std::string_view text) { context.print(text); }, more);
  else if (values) print_stats(*values, context);
  else inspect_text(found, o.view, o.depth, context);
  if (!context.common.report.empty()) inspect_json(found, [&](std::string_view text) { a.document += text; }, more);
  return a;
}

int run(const Options& o, Context& context) {
  Exit answer_exit = Exit::kOk;
  const int exit = run_reported(context, {.source = o.source.path}, [&] {
    Answer a = answer(o, context);
    answer_exit = a.exit;
    return std::move(a.document);
  });
  return exit == 0 ? static_cast<int>(answer_exit) : exit;
}

}  // namespace

void add_inspect(Command& c, Context& context) {
  auto options = std::make_shared<Options>();
  Options& o = *options;
  c.details = kText;
  add_source(c, context, o.source);
  add_max_memory(c, o.max_memory, "Source");
  const auto add_view = [&](const char* name, InspectView view, const char* help) -> Option& {
    return c.option(name, [&o, view](const std::string&) { return o.view = view, true; }, "", help);
  };
  add_view("--summary", InspectView::kSummary, "The summary alone");
  c.number("--depth", o.depth, "N", "Show N components of keys, and sums of what is below them").excludes("--summary");
  add_view("--tree", InspectView::kTree, "Every key, in the tree of their components").excludes("--summary").excludes("--depth");
  add_view("--keys", InspectView::kKeys, "Flat list of keys");
  add_view("--chunks", InspectView::kChunks, "Each chunk with its box, file and byte range").excludes("--keys");
  add_view("--files", InspectView::kFiles, "Each data file: bytes, items, unreferenced bytes").excludes("--keys").excludes("--chunks");
  c.option("--stats", o.stats, "GLOB", "Read the tensors whose keys match GLOB, and say what their values are")
      .offers(Offer::kKeys)
      .excludes("--keys")
      .excludes("--chunks")
      .excludes("--files")
      .excludes("--map");
  add_threads(c, o.threads, "Source");
  c.find("--threads")->needs("--stats");
  c.option("--html", o.html, "FILE", "Write a page with pictures to FILE too: what lies where in each file, how each tensor is cut")
      .writes();
  add_key_flags(c, o.keys);
  add_map(c, o.map);
  add_fail_on(c, o.fail_on, "What is checked");
  add_dtypes(c, o.dtypes);
  add_common(c, context, true);
  c.pages = true;
  c.arguments.front().for_each();
  c.run = [options, &context] {
    if (const auto launch = launch_here(); launch && launch->rank > 0) return 0;  // rank 0 says it for all
    if (context.several && options->view > InspectView::kTree && !context.common.json) context.print(escaped(options->source.path) + ":\n");
    return run(*options, context);
  };
}

}  // namespace dcp::cmd
