// dcpctl inspect: what is in a checkpoint. Reads the metadata and the sizes of data files; no tensor data.
#include <unistd.h>

#include <algorithm>
#include <iterator>

#include "app/stages.h"
#include "base/file_names.h"
#include "catalog/kind.h"
#include "inputs/run.h"
#include "line/commands.h"
#include "line/exit_status.h"
#include "line/lines.h"
#include "line/option_values.h"
#include "line/text_file.h"
#include "report/inspect_answer.h"
#include "report/list_report.h"
#include "report/page/page.h"
#include "request/ranks_flags.h"

namespace dcp::cmd {
namespace {

constexpr const char* kText =
    R"(Shows what is in a checkpoint: of which step it is, whether something is missing, which torch versions can load it, or in which program's
form it is (torch_checkpointing's, accelerate's, transformers'), model and optimizer, tensors, dtypes, bytes, how each tensor is sharded.
Reads only metadata and headers, in milliseconds; no tensor data, and data files may be missing.

Damage and warnings come first, then the keys on one screen: layers, and other keys that differ only in numbers, share a row, and what a
trainer keeps beside the model is folded if it would not fit. --depth keeps layers apart, --tree and --keys show all. -v adds who wrote it,
chunks, the bytes of each dtype and top-level key and, for a few keys given after CKPT, where each chunk lies. A data file that is missing or
was cut short makes the exit code 1, an unreadable one 4. Where one of several files cannot be read, the others are shown.

If the data files are there, the pickles of objects are examined too: one that would run what torch.load(weights_only=True) refuses is named
with its key. --fail-on unsafe examines every item's pickle, and makes the exit code 1 if one is unsafe or cannot be examined.

--stats prints bounds, mean, deviation and the number of NaN, inf and zeros of each tensor: which layer went NaN? Quantiles, and how many values
lie in each of eight equal steps from min to max, are approximate: to one part in a hundred of a value. It reads the tensors' data and checks its CRCs. A word after --stats is a GLOB, unless it is a path and no CKPT stands before it.

CKPT is a DCP folder, its .metadata file or one of its data files, a torch.save file (.pt .pth .bin .ckpt; also in the form before torch
1.6), a safetensors file, a folder of safetensors files, a folder of per-rank files (verl, SkyRL, accelerate, torch_checkpointing), or with
--step a run folder, whose steps are listed without it. The kind of a file is recognized by its content.

  dcpctl inspect step-1000
  dcpctl inspect step-1000 --tree --root model
  dcpctl inspect step-1000 --depth 3 --sort size
  dcpctl inspect step-1000 --keys --include 'model.*'
  dcpctl inspect step-1000 'model.layers.0.*'
  dcpctl inspect step-1000 model.norm.weight --chunks
  dcpctl inspect step-1000 --top 10
  dcpctl inspect step-1000 --csv > tensors.csv
  dcpctl inspect step-1000 --ranks
  dcpctl inspect step-1000 --fail-on unsafe
  dcpctl inspect step-1000 --stats --model-only
  dcpctl inspect step-1000 --json | jq '.tensors[].key')";

// A data file stands for its folder; a folder that is no checkpoint may hold steps, which may be links.
void understand_path(InspectOptions& o, Option& argument, Context& context) {
  const auto facts = context.store.facts(o.source.path);
  if (!facts) return;
  if (facts->kind == FileKind::kDirectory) {
    if (!o.source.step.empty() || has_metadata(context.store, o.source.path)) return;
    if (!is_checkpoint_folder(context.store, o.source.path)) argument.opens(Access::kRun);
    return;
  }
  const std::string folder = folder_around(o.source.path);
  if (role_of(split_path(o.source.path).name) != FileRole::kData || !is_checkpoint_folder(context.store, folder)) return;
  context.info(escaped(o.source.path) + " is a part of " + escaped(folder));
  argument.given = {folder};
  o.source.path = folder;
}

// A word behind the one checkpoint that is no path is a key of it, all below a dict, or a glob.
void understand_words(InspectOptions& o, Option& argument, Context& context) {
  const auto is_path = [&](const std::string& word) {
    try {
      return context.store.facts(word).has_value();
    } catch (const Error&) {  // in a store that cannot be reached from here
      return true;
    }
  };
  const auto is_glob = [](const std::string& word) { return word.find_first_of("*?[") != word.npos; };
  std::vector<std::string>& all = argument.given;
  const auto paths = std::ranges::count_if(all, is_path);
  // A key before the checkpoint is meant as one behind it.
  if (all.size() == 2 && paths == 1 && !is_path(all.front()) && all.front().find('/') == all.front().npos)
    std::swap(all.front(), all.back());
  if (all.size() < 2 || !is_path(all.front())) return;
  const auto may_be_key = [&](const std::string& word) { return is_path(word) || is_glob(word) || word.find('/') == word.npos; };
  const bool has_keys = paths == 1 && std::ranges::all_of(all, may_be_key);
  const auto is_key = [&](const std::string& word) { return !is_path(word) && (has_keys || is_glob(word)); };
  std::ranges::copy_if(all, std::back_inserter(o.words), is_key);
  if (o.words.empty()) return;
  std::erase_if(argument.given, is_key);
  argument.take(argument.given.front());
  for (const std::string& word : o.words) o.keys.rules.push_back({KeyRule::Kind::kInclude, word});
}

bool opens(const std::string& path, const InspectOptions& o, Context& context) try {
  open_source({.path = path, .follow_links = o.source.follow_links}, context, reading_cap(o.max_memory));
  return true;
} catch (const Error&) {
  return false;
}

// The command that shows a step: of the newest complete one, else of one that opens.
std::string how_to_see(const InspectOptions& o, const RunSurvey& run, Context& context) {
  const std::string command = "dcpctl inspect " + escaped(o.source.path);
  const auto of_step = [&](const StepFacts& s) { return "'" + command + " --step " + std::to_string(s.number) + "'"; };
  if (const std::optional<size_t> newest = run.newest())
    return "see one of them with " + of_step(run.steps[*newest]) + ", the newest complete one with '" + command + " --step latest'\n";
  const auto shown = std::find_if(run.steps.rbegin(), run.steps.rend(), [&](const StepFacts& s) { return opens(s.path, o, context); });
  if (shown == run.steps.rend()) return {};
  const bool by_itself = shown->state == StepState::kUnfinished;
  return "see one of them with " + (by_itself ? "'dcpctl inspect " + escaped(shown->path) + "'" : of_step(*shown)) + "\n";
}

// The steps of what turned out to be a run. Throws what opening threw if it is none, or was asked for what only a checkpoint has.
InspectAnswer answer_or_steps(const InspectOptions& o, Context& context) {
  try {
    return inspect_answer(o, context);
  } catch (const Error& e) {
    const bool is_plain = o.style.view <= InspectView::kSummary && o.stats.empty() && o.map.map.empty() && o.words.empty() && !o.csv &&
                          o.fields.format == RowFormat::kNone;
    const bool is_run =
        e.problem().remedy == Remedy::kOneOrLatest ||
        (e.problem().id == ProblemId::not_checkpoint && o.source.step.empty() && !steps_of_run(context.store, o.source.path, "").empty());
    if (!is_run) throw;
    if (!o.stats.empty() || context.common.json) {
      Problem p = context.worded(e.problem());
      const std::string run = shell_word(o.source.path);
      p.hint += o.stats.empty() ? "; 'dcpctl list " + run + " --json' has all of them"
                                : "; 'dcpctl verify " + run + " --fail-on nan' looks for NaN in all of them";
      throw Error(std::move(p));
    }
    if (!is_plain || context.common.json || !context.common.report.empty()) throw;
  }
  ListResult found;
  list_steps({.survey = {.run = o.source.path,
                         .pattern = {},
                         .follow_links = o.source.follow_links,
                         .max_memory = reading_cap(o.max_memory),
                         .threads = o.threads}},
             context, found);
  if (!o.html.empty()) save_page(context, o.html, list_html(found.survey));
  print_steps(found.survey, {}, context);
  if (const std::string how = how_to_see(o, found.survey, context); !how.empty()) context.print(fitted(context, how, STDOUT_FILENO));
  const bool is_damaged = std::ranges::any_of(found.survey.steps, [](const StepFacts& s) { return word_of(s) == "damaged"; });
  return {.document = {}, .exit = is_damaged ? Exit::kAnswerNo : Exit::kOk};
}

int run(const InspectOptions& o, Context& context) {
  Exit answer_exit = Exit::kOk;
  const int exit = run_reported(context, {.source = o.source.path}, [&] {
    InspectAnswer a = answer_or_steps(o, context);
    answer_exit = a.exit;
    return std::move(a.document);
  });
  return exit == 0 ? static_cast<int>(answer_exit) : exit;
}

void add_views(Command& c, InspectOptions& o) {
  const auto add_view = [&](const char* name, InspectView view, const char* help) -> Option& {
    return c.option(name, [&o, view](const std::string&) { return o.style.view = view, true; }, "", help);
  };
  add_view("--summary", InspectView::kSummary, "The lines above the keys alone");
  c.number("--depth", o.style.depth, "N", "Show N components of keys, layers apart, and totals of what is below them")
      .excludes("--summary");
  add_view("--tree", InspectView::kTree, "Every key, in the tree of their components").excludes("--summary").excludes("--depth");
  add_view("--keys", InspectView::kKeys, "Flat list of keys");
  c.number("--top", o.style.top, {1, SIZE_MAX}, "N", "The N largest tensors, the largest first")
      .excludes("--summary")
      .excludes("--depth")
      .excludes("--tree");
  add_view("--chunks", InspectView::kChunks, "Each chunk with its box, file and byte range")
      .also({"--shards"})
      .excludes("--keys")
      .excludes("--top");
  add_view("--files", InspectView::kFiles, "Each data file: bytes, items, unreferenced bytes")
      .excludes("--keys")
      .excludes("--top")
      .excludes("--chunks");
  Option& ranks = add_view("--ranks", InspectView::kRanks, "What each rank holds, which of them the most, and of which keys");
  ranks.also({"--by-rank", "--per-rank"});
  for (const char* other : {"--summary", "--depth", "--tree", "--keys", "--top", "--chunks", "--files"}) ranks.excludes(other);
  c.choice("--sort", o.style.sort, {{"name", SortBy::kName}, {"size", SortBy::kSize}}, "ORDER",
           "Order of what is shown: name (default) or size")
      .excludes("--tree")
      .excludes("--chunks");
}

}  // namespace

void add_inspect(Command& c, Context& context) {
  auto options = std::make_shared<InspectOptions>();
  InspectOptions& o = *options;
  c.details = kText;
  add_source(c, context, o.source);
  add_max_memory(c, o.max_memory, "Source");
  add_views(c, o);
  c.option("--stats", o.stats, "[GLOB]", "Read the tensors, or those whose keys match GLOB, and print statistics of their values")
      .or_alone("*")
      .offers(Offer::kKeys)
      .excludes("--keys")
      .excludes("--chunks")
      .excludes("--files")
      .excludes("--ranks")
      .excludes("--sort")
      .excludes("--top")
      .excludes("--map");
  add_threads(c, o.threads, "Source");
  c.find("--threads")->needs("--stats");
  Option& csv = c.flag("--csv", o.csv, "A row for each key, as spreadsheets read it (RFC 4180)");
  for (const char* other : {"--summary", "--depth", "--tree", "--chunks", "--files", "--ranks", "--stats", "--map", "--json"})
    csv.excludes(other);
  add_fields(c, o.fields, kInspectFields);
  for (const char* other :
       {"--summary", "--depth", "--tree", "--keys", "--chunks", "--files", "--ranks", "--stats", "--map", "--json", "--csv"})
    c.find("--format")->excludes(other);
  c.option("--html", o.html, "FILE",
           "Also write a page with pictures to FILE: the layout of each file, how each tensor is sharded; with --map, which tensors become "
           "which")
      .writes();
  add_key_flags(c, o.keys);
  c.find("--model-only")->help = "The model without optimizer and other training state, under its names";
  add_map(c, o.map);
  add_fail_on(c, o.fail_on, "What is checked");
  add_dtypes(c, o.dtypes);
  add_common(c, context.common, true);
  c.find("-v")->help = "More about the checkpoint, and more details on stderr";
  c.pages = true;
  c.arguments.front().for_each();
  c.arguments.front().help += "; words behind it that are no paths are keys or globs, as of --include";
  c.expand = [&o, &c, &context] { return understand_words(o, c.arguments.front(), context), false; };
  c.before_rights = [&o, &c, &context] { understand_path(o, c.arguments.front(), context); };
  c.run = by_rank_0([options, &context] {
    if (context.several && options->style.view > InspectView::kTree && !context.common.json)
      context.print(escaped(options->source.path) + ":\n");
    return run(*options, context);
  });
}

}  // namespace dcp::cmd
