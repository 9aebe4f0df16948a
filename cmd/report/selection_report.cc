#include "report/selection_report.h"

#include <algorithm>
#include <functional>

#include "base/problem.h"
#include "base/text.h"
#include "line/command.h"
#include "line/problem_words.h"
#include "report/outline.h"

namespace dcp::cmd {
namespace {

// Of the options that select keys those that were typed.
std::string rules_given(const Context& context) {
  std::vector<std::string> given;
  for (const std::string option : {"--include", "--exclude", "--key"})
    if (std::ranges::any_of(context.words, [&](const std::string& word) { return word == option || word.starts_with(option + "="); }))
      given.push_back(option);
  return given.empty() ? "the given keys" : joined(given, ", ");
}

std::string typed(const UnmatchedRule& rule) { return option_of(rule.setting) + " " + rule.text; }

// All of them: who trusts the document does not have to guess what the output lacks.
void dropped_keys(JsonWriter& out, const Catalog& catalog, const Selection& selection) {
  std::vector<bool> kept_tensors(catalog.tensors.size()), kept_blobs(catalog.blobs.size());
  for (const Entry& e : selection.entries) (e.is_blob() ? kept_blobs[e.blob()] : kept_tensors[e.tensor()]) = true;
  out.key("dropped_keys").begin_array();
  for (const KeyRef ref : catalog.order)
    if (ref.is_blob() ? !kept_blobs[ref.blob()] : !kept_tensors[ref.tensor()]) out.value(catalog.key(ref));
  out.end_array();
}

void renamed_keys(JsonWriter& out, const Catalog& catalog, const Selection& selection) {
  out.key("renamed_keys").begin_array();
  for (const Entry& e : selection.entries) {
    const std::string_view from = catalog.key(e.ref);
    if (from != e.key) out.begin_object().member("from", from).member("to", e.key).end_object();
  }
  out.end_array();
}

}  // namespace

std::string folded_names(const std::vector<std::string>& names, uint64_t keys) {
  constexpr size_t kRows = 3;
  Fold fold({.rows = kRows});
  for (const std::string& name : names) {
    Fold::Key key{.words = {}, .kind = ""};
    add_components(name, key.words);
    fold.add(key);
  }
  std::string text;
  uint64_t told = 0;
  const uint64_t all = std::max<uint64_t>(keys, names.size());
  std::vector<FoldedRow> rows = names.size() > kRows ? fold.rows() : std::vector<FoldedRow>();
  if (all <= LeftOut::kNamed && (rows.size() > kRows || std::ranges::any_of(rows, &FoldedRow::is_folded))) rows.clear();  // each is named
  if (rows.size() > kRows) std::ranges::stable_sort(rows, std::greater<>(), [](const FoldedRow& row) { return row.ids.size(); });
  for (size_t r = 0; r < std::min(rows.size(), kRows); ++r) {
    text += (r == 0 ? "" : ", ") + rows[r].label + (rows[r].is_folded ? ".* (" + grouped(rows[r].ids.size()) + ")" : "");
    told += rows[r].ids.size();
  }
  if (rows.empty()) text = list_of(names, LeftOut::kNamed), told = names.size();
  const uint64_t more = all - told;
  return more == 0 ? text : text + " and " + grouped(more) + " more";
}

std::string names_of(const LeftOut& left_out) {
  const std::vector<std::string> names(left_out.first.begin(), left_out.first.end());
  return names.empty() ? "" : ": " + folded_names(names, left_out.keys);
}

std::string wrapped_text(const Selection& s) {
  return counted(s.wrapped, "key") + " with a wrapper prefix, such as '" + shortened(s.wrapped_example) +
         "'; --clean-fqns of the commands that write takes it off";
}

std::string flat_text(const Selection& s) {
  return counted(s.flat_parameters, "flat parameter") + " of FSDP1, such as '" + shortened(s.flat_example) +
         "': no model has them under this name or shape";
}

void describe_selection(Context& context, const Selection& s) {
  constexpr uint64_t kFew = 10;
  if (s.dropped_by_rules.keys > 0)
    context.info("left out " + counted(s.dropped_by_rules.keys, "key") + " by " + rules_given(context) + names_of(s.dropped_by_rules));
  const bool is_short = s.dropped_non_model.keys <= kFew && s.dropped_non_model.keys > s.dropped_top.size();
  if (s.dropped_non_model.keys > 0)
    context.info("kept " + counted(s.entries.size(), "model key") + "; left out " + counted(s.dropped_non_model.keys, "non-model key") +
                 " under " + list_of(s.dropped_top) + (is_short ? names_of(s.dropped_non_model) : ""));
  if (s.dropped_outside_root.keys > 0)
    context.info("left out " + counted(s.dropped_outside_root.keys, "key") + " outside " + escaped(s.root) +
                 names_of(s.dropped_outside_root));
  if (!s.root.empty()) context.info("stripped the root '" + escaped(s.root) + "'");
  if (!s.stripped_root.empty())
    context.info("stripped the root '" + escaped(s.stripped_root) + "'" +
                 (s.joined_pieces ? " and those of the model's other pieces" : ""));
  if (s.renamed > 0) context.info("renamed " + counted(s.renamed, "key"));
  if (s.wrapped > 0) context.info(wrapped_text(s));
  if (s.flat_parameters > 0) context.info(flat_text(s));
}

std::vector<std::string> unmatched_lines(const std::vector<UnmatchedRule>& rules) {
  std::vector<std::string> lines;
  for (const UnmatchedRule& rule : rules) lines.push_back(shortened(typed(rule)) + " matches no key");
  return lines;
}

std::vector<std::string> unmatched_rules(const Selection& s) {
  std::vector<std::string> unmatched = unmatched_lines(s.unmatched);
  if (!s.unmapped.empty()) unmatched.push_back("--rename-map names keys that are not there: " + list_of(s.unmapped));
  for (const std::string& glob : s.casts.unmatched_rules)
    unmatched.push_back("--dtype-rule '" + escaped(glob) + "' matches no floating-point tensor");
  return unmatched;
}

void describe_unmatched(Context& context, const std::vector<std::string>& unmatched) {
  for (const std::string& text : unmatched) context.info("warning: " + text);
}

void selection_json(JsonWriter& out, const Catalog& catalog, const Selection& s, uint64_t left_out_objects) {
  out.member("stripped_root", s.root.empty() || s.stripped_root.empty() ? s.root + s.stripped_root : s.root + "." + s.stripped_root)
      .member("renamed", s.renamed)
      .member("wrapped", s.wrapped);
  out.member("unmapped", s.unmapped);
  std::vector<std::string> unmatched;
  for (const UnmatchedRule& rule : s.unmatched) unmatched.push_back(typed(rule));
  out.member("idle", unmatched);
  out.key("dropped").begin_object();
  out.member("by_rules", s.dropped_by_rules.keys).member("non_model", s.dropped_non_model.keys);
  out.member("outside_root", s.dropped_outside_root.keys).member("objects", s.dropped_blobs.size() + left_out_objects + s.dropped_states);
  out.end_object();
  out.member("dropped_top", s.dropped_top);
  dropped_keys(out, catalog, s);
  renamed_keys(out, catalog, s);
}

}  // namespace dcp::cmd
