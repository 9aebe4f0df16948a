// What lies below a key that is a dict, or under all keys that match a glob.
#include <unistd.h>

#include <algorithm>

#include "app/inspect.h"
#include "app/output.h"
#include "base/json.h"
#include "base/text.h"
#include "line/lines.h"
#include "report/extract_value.h"
#include "report/inspect_text.h"

namespace dcp::cmd {
namespace {

// Shorter keys are padded to the longest of those that are no longer than this.
constexpr size_t kWidest = 60;

std::string held_text(const Catalog& catalog, const Entry& e) {
  if (e.is_blob()) return "object";
  const Tensor& t = catalog.tensors[e.tensor()];
  return std::string(catalog.strings[t.dtype_name]) + " " + shape_text(catalog.dims(t)) + "  " + human_bytes(catalog.tensor_bytes(t));
}

std::string lines_of(const InspectResult& found) {
  const std::vector<Entry> entries = sorted_entries(found.selection);
  size_t width = 0;
  for (const Entry& e : entries)
    if (const size_t own = display_width(part_text({.name = e.key})); own <= kWidest) width = std::max(width, own);
  std::string text;
  for (const Entry& e : entries) {
    const std::string key = part_text({.name = e.key});
    const auto value = found.values.find(e.ref);
    if (value != found.values.end()) text += key + " = " + escaped(value->second) + "\n";
    else text += key + std::string(width - std::min(width, display_width(key)) + 2, ' ') + held_text(found.catalog(), e) + "\n";
  }
  return text;
}

std::string document_of(const ExtractOptions& o, const InspectResult& found) {
  std::string document;
  JsonWriter json([&](std::string_view text) { document += text; });
  json.begin_object().member("schema", "dcpctl.extract/1").member("path", o.source.path).member("key", o.key).member("kind", "subtree");
  if (found.catalog().path != o.source.path) json.member("checkpoint", found.catalog().path);
  json.key("keys").begin_array();
  for (const Entry& e : sorted_entries(found.selection)) {
    json.begin_object().member("key", e.key).member("kind", e.is_blob() ? "object" : "tensor");
    if (!e.is_blob()) {
      const Tensor& t = found.catalog().tensors[e.tensor()];
      json.member("dtype", found.catalog().strings[t.dtype_name]).member("shape", found.catalog().dims(t));
    }
    if (const auto value = found.values.find(e.ref); value != found.values.end()) json.member("value", value->second);
    json.end_object();
  }
  json.end_array();
  if (o.to_file()) json.member("output", o.out);
  json.end_object();
  json.finish();
  return document;
}

Problem no_such_word(const ExtractOptions& o, const std::string& word, const std::string& path) {
  Problem p = make_problem(ProblemId::key_missing, {.path = path}, word);
  if (word != o.key) p.hint = "a file to write ends in .npy, .npz, .pt, .safetensors, .raw, .txt or .json, or has a --format";
  return p;
}

}  // namespace

std::string extract_subtree(const ExtractOptions& o, const Problem& missing, Context& context) {
  InspectResult found;
  try {
    inspect({.source = o.source.request(),
             .max_memory = reading_cap(o.max_memory),
             .all_values = true,
             .map = {},
             .select = o.select(KeyRule::Kind::kInclude)},
            context, found);
  } catch (const Error& e) {
    if (e.problem().id != ProblemId::nothing_selected) throw;
    if (!o.more.empty()) throw Error(no_such_word(o, o.key, e.problem().place.path));
    throw Error(missing);
  }
  for (const UnmatchedRule& rule : found.selection.unmatched) throw Error(no_such_word(o, rule.text, found.catalog().path));
  for (const Problem& p : found.findings)
    if (p.severity >= Severity::kDamage) context.warn(context.line_of(p));
  context.status((o.more.empty() ? escaped(o.key) : counted(1 + o.more.size(), "word")) + ": " +
                 counted(found.selection.entries.size(), "key"));
  std::string document = document_of(o, found);
  const std::string text = o.form == ExtractForm::kJson ? document : lines_of(found);
  if (!o.to_file()) return context.print(o.form == ExtractForm::kJson ? text : fitted(context, text, STDOUT_FILENO)), document;
  refuse_source(o.out, found.catalog());
  save_text(context, o.out, [&](const TextOut& to) { to(text); }, {.replace = o.force ? Replace::kYes : Replace::kNo, .sync = !o.no_sync});
  if (context.common.json) context.print(document);
  else if (!context.common.quiet) context.print("wrote " + escaped(o.out) + "\n");
  return document;
}

}  // namespace dcp::cmd
