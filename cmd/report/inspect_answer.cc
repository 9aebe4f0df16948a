#include "report/inspect_answer.h"

#include <algorithm>

#include "base/json.h"
#include "line/option_values.h"
#include "report/inspect_mapped.h"
#include "report/selection_report.h"
#include "report/stats_report.h"

namespace dcp::cmd {
namespace {

// Of a model at the top, where no key begins with "model.", and of other globs that match nothing.
Problem no_tensor(const InspectOptions& o, const InspectResult& found) {
  Problem p = nothing_to_measure(o.stats, found.catalog().path);
  const bool has_model = std::ranges::any_of(found.selection.state.models, [](const KeyGroup& m) { return m.path.empty(); });
  std::string inner = o.stats;
  while (inner.starts_with('*') || inner.starts_with('.')) inner.erase(0, 1);
  while (inner.ends_with('*') || inner.ends_with('.')) inner.pop_back();
  const auto holds = [&](const Entry& e) { return !e.is_blob() && !inner.empty() && e.key.find(inner) != e.key.npos; };
  if (std::ranges::any_of(found.selection.entries, holds)) p.hint = "--stats '*" + escaped(inner) + "*' matches some";
  else if (o.stats == "model.*" && has_model && !o.keys.select.model_only) p.hint = "the model is at the top here: --stats --model-only";
  return p;
}

// The requested statistics of tensors, in addition to the answer or instead of it.
std::optional<StatsResult> stats_of(const InspectOptions& o, const SelectOptions& select, const InspectResult& found, Context& context) {
  if (o.stats.empty()) return std::nullopt;
  StatsResult result;
  SelectOptions plain = select;
  plain.dtypes = {};
  SourceRequest source = o.source.request();
  if (!source.step.empty()) source.path = found.catalog().path, source.step.clear();  // it is known, and said
  stats({.read = {.source = std::move(source), .max_memory = reading_cap(o.max_memory), .threads = o.threads},
         .select = std::move(plain),
         .glob = o.stats},
        context, result);
  if (result.tensors.empty()) throw Error(no_tensor(o, found));
  for (const KeyStats& k : result.tensors)
    if (k.fault) context.warn(context.line_of(*k.fault));
  return result;
}

// What a map would make of the checkpoint.
InspectAnswer mapped_answer(const InspectOptions& o, const InspectResult& found, Context& context) {
  if (context.common.json) inspect_mapped_json(found, [&](std::string_view text) { context.print(text); });
  else inspect_mapped_text(found, o.style.view, context);
  if (!o.html.empty()) save_page(context, o.html, inspect_mapped_html(found));
  InspectAnswer a;
  if (!context.common.report.empty()) inspect_mapped_json(found, [&](std::string_view text) { a.document += text; });
  check_holds(found.map->made, context);
  return a;
}

// The metadata alone may be asked about; a checkpoint has its files.
Exit exit_of(const InspectResult& found, const FailOn& fail_on) {
  const bool is_metadata = found.catalog().is_metadata_given();
  const auto& findings = found.findings;
  if (!is_metadata && std::ranges::find(findings, Severity::kError, &Problem::severity) != findings.end()) return Exit::kMachine;
  const auto is_damage = [&](const Problem& p) {
    return p.severity == Severity::kDamage && !(is_metadata && p.id == ProblemId::file_missing);
  };
  if (std::ranges::any_of(findings, is_damage)) return Exit::kAnswerNo;
  return fails(fail_on, findings) ? Exit::kAnswerNo : Exit::kOk;
}

// Of a word behind the checkpoint, which is neither a path nor a key.
Problem no_such_word(const std::string& word, const InspectOptions& o, const Catalog& catalog) {
  Problem p = make_problem(ProblemId::no_such_path, {.path = word});
  p.what += ", and no such key in " + escaped(o.source.path);
  SelectOptions exact;
  exact.rules = {{KeyRule::Kind::kKey, word}};
  try {
    select_keys(catalog, exact);
  } catch (const Error& e) {
    p.hint = e.problem().hint;  // the nearest key
  }
  if (p.hint.empty()) p.hint = "if it is a key, 'dcpctl inspect " + escaped(o.source.path) + " --keys' shows how it is written";
  return p;
}

bool is_glob(const std::string& word) { return word.find_first_of("*?[") != word.npos; }

// Of words that are no keys those that are the end of several become globs. Throws where one is none.
bool widened(std::vector<std::string>& words, const std::vector<std::string>& unmatched, const InspectOptions& o, const Catalog& catalog) {
  bool is_any = false;
  for (std::string& word : words) {
    if (is_glob(word) || std::ranges::find(unmatched, word) == unmatched.end()) continue;
    if (std::ranges::none_of(catalog.order, [&](KeyRef key) { return catalog.key(key).ends_with("." + word); }))
      throw Error(no_such_word(word, o, catalog));
    word.insert(0, "*.");
    is_any = true;
  }
  return is_any;
}

// What is selected, where words were typed for it.
void inspect_words(InspectRequest request, const InspectOptions& o, Context& context, InspectResult& found) {
  std::vector<std::string> words = o.words, unmatched;
  try {
    inspect(request, context, found);
    for (const UnmatchedRule& rule : found.selection.unmatched) unmatched.push_back(rule.text);
  } catch (const Error& e) {
    if (e.problem().id != ProblemId::nothing_selected) throw;
    unmatched = o.words;
    if (std::ranges::all_of(words, is_glob)) throw;
  }
  if (widened(words, unmatched, o, found.catalog())) {
    for (KeyRule& rule : request.select.rules)
      if (std::ranges::find(words, "*." + rule.text) != words.end()) rule.text.insert(0, "*.");
    inspect(request, context, found = {});
  }
  std::string told;
  for (const std::string& word : words) told += " --include " + (is_glob(word) ? shell_quoted(word) : shell_word(word));
  if (!told.empty() && !context.is_later) context.info("taken as" + told);
}

}  // namespace

InspectAnswer inspect_answer(const InspectOptions& o, Context& context) {
  check_page(context, o.html, o.source.path);
  SelectOptions select = o.keys.select_options(context);
  select.keep_root = true;  // where the model lies is part of the answer
  select.dtypes = o.dtypes.options();
  o.map.check_config(!o.dtypes.dtype.empty());
  InspectResult found;
  SourceRequest source = o.source.request();
  inspect_words({.source = source,
                 .max_memory = reading_cap(o.max_memory),
                 .look_into_all = o.fail_on.unsafe(),
                 .map = o.map.request(),
                 .select = select},
                o, context, found);
  sort_naturally(found.findings);
  if (found.map) return mapped_answer(o, found, context);
  InspectAnswer a{.document = {}, .exit = exit_of(found, o.fail_on)};
  describe_unmatched(context, unmatched_rules(found.selection));
  const std::optional<StatsResult> values = stats_of(o, select, found, context);
  if (!o.html.empty()) save_page(context, o.html, inspect_html(found, {.stats = values ? &*values : nullptr}));
  if (values && a.exit != Exit::kMachine)
    for (const KeyStats& k : values->tensors)
      if (k.fault) a.exit = std::max(a.exit, class_of(k.fault->id) == ProblemClass::kMachine ? Exit::kMachine : Exit::kAnswerNo);
  // Rows alone do not show why the exit code is not 0.
  const bool is_rows = o.csv || o.fields.format != RowFormat::kNone || o.style.view == InspectView::kKeys || values;
  for (const Problem& f : found.findings)
    if (is_rows && !context.common.json && f.severity >= Severity::kDamage) context.warn(context.line_of(f));
  const auto more = [&](JsonWriter& json) {
    if (values) stats_json(json, *values);
    if (o.style.view == InspectView::kRanks) holdings_json(json, holdings_of(found));
    if (o.style.top == 0) return;
    json.key("largest").begin_array();
    for (const Entry& e : largest_tensors(found, o.style.top)) json.value(e.key);
    json.end_array();
  };
  if (context.common.json) inspect_json(found, [&](std::string_view text) { context.print(text); }, more);
  else if (o.csv) inspect_csv(found, o.style, context);
  else if (o.fields.format != RowFormat::kNone) inspect_rows(found, o.style, o.fields, context);
  else if (values) print_stats(*values, found.catalog().path, context);
  else inspect_text(found, o.style, context);
  if (o.style.sort == SortBy::kSize && o.style.view == InspectView::kOutline && o.style.top == 0 && !o.style.depth && !is_rows &&
      !context.common.json)
    context.info("--top 10 prints the ten largest tensors, each in a row");
  const bool is_text = !context.common.json && !is_rows && !o.words.empty() && o.style.view == InspectView::kOutline && o.style.top == 0;
  if (is_text && context.common.verbose > 0)
    if (const InspectSummary s = summary_of(found.catalog(), found.selection); s.chunks + s.blobs <= 60) {  // a screen
      context.print("\n");
      inspect_text(found, {.view = InspectView::kChunks}, context);
    }
  if (!context.common.report.empty()) inspect_json(found, [&](std::string_view text) { a.document += text; }, more);
  return a;
}

}  // namespace dcp::cmd
