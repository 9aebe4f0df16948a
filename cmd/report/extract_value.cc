#include "report/extract_value.h"

#include <unistd.h>

#include <algorithm>
#include <optional>

#include "app/inspect.h"
#include "app/output.h"
#include "base/json.h"
#include "base/text.h"
#include "line/lines.h"
#include "line/text_file.h"
#include "report/inspect_text.h"
#include "report/object_text.h"
#include "report/stats_report.h"
#include "report/values_text.h"
#include "report/write_report.h"

namespace dcp::cmd {
namespace {

constexpr uint64_t kShownWhole = 1000;  // elements, as torch and numpy do

void note_unchecked(const ExtractOptions& o, Context& context) {
  if (!o.slice.empty()) context.info("the CRC is of the whole tensor, and not checked for a slice");
}

struct ReaderGone {};

void head_json(JsonWriter& json, const ExtractOptions& o, const Extraction& found) {
  json.member("schema", "dcpctl.extract/1").member("path", o.source.path).member("key", found.key());
  if (found.checkpoint() != o.source.path) json.member("checkpoint", found.checkpoint());
  json.member("kind", found.is_object() ? "object" : "tensor");
  if (found.is_object()) return;
  json.member("dtype", facts_of(found.dtype()).name).member("shape", found.shape());
  if (!o.slice.empty()) json.member("slice", o.slice);
}

PrintBound bound_of(const PickleGraph& object, const Extraction& found) {
  return {object, {.path = found.checkpoint(), .tensor = std::string(found.key()), .object = true}};
}

void emit_json(const ExtractOptions& o, Extraction& found, const TextOut& out) {
  json_document(out, [&](JsonWriter& json) {
    if (found.is_object()) {
      const PickleGraph object = found.object();
      check_object_json(object, bound_of(object, found));
      head_json(json, o, found);
      object_json(json.key("value"), object);
    } else {
      found.check();
      head_json(json, o, found);
      values_json(json.key("values"), found);
    }
  });
}

std::string text_of(const ExtractOptions& o, Extraction& found, Context& context) {
  const size_t columns = o.to_file() ? 80 : context.columns(STDOUT_FILENO);
  if (found.is_object()) {
    const PickleGraph object = found.object();
    return object_text(object, columns, bound_of(object, found));
  }
  const bool small = volume(found.shape()) <= kShownWhole;
  const Glance glance = found.glance(kShownWhole);
  context.status(escaped(found.key()) + ": " + std::string(facts_of(found.dtype()).name) + " " + shape_text(found.shape()));
  if (!small) context.status("more than 1,000 elements: the ends of its dims, CRC not checked; --slice shows a part, --format json all");
  return values_text(glance, found.dtype(), columns);
}

OutputRequest::Kind kind_of(ExtractForm form) {
  using Kind = OutputRequest::Kind;
  return form == ExtractForm::kNpy     ? Kind::kNpy
         : form == ExtractForm::kNpz   ? Kind::kNpz
         : form == ExtractForm::kTorch ? Kind::kTorch
         : form == ExtractForm::kRaw   ? Kind::kRaw
                                       : Kind::kSafetensors;
}

std::string document_of(const ExtractOptions& o, const Extraction& found) {
  return json_document([&](JsonWriter& json) {
    head_json(json, o, found);
    if (o.to_file()) json.member("output", o.out);
  });
}

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
    if (const std::string* value = found.value_of(e.ref)) text += key + " = " + escaped(*value) + "\n";
    else text += key + std::string(width - std::min(width, display_width(key)) + 2, ' ') + held_text(found.catalog(), e) + "\n";
  }
  return text;
}

std::string document_of(const ExtractOptions& o, const InspectResult& found) {
  return json_document([&](JsonWriter& json) {
    json.member("schema", "dcpctl.extract/1").member("path", o.source.path).member("key", o.key).member("kind", "subtree");
    if (found.catalog().path != o.source.path) json.member("checkpoint", found.catalog().path);
    json.key("keys").begin_array();
    for (const Entry& e : sorted_entries(found.selection)) {
      json.begin_object().member("key", e.key).member("kind", e.is_blob() ? "object" : "tensor");
      if (!e.is_blob()) {
        const Tensor& t = found.catalog().tensors[e.tensor()];
        json.member("dtype", found.catalog().strings[t.dtype_name]).member("shape", found.catalog().dims(t));
      }
      if (const std::string* value = found.value_of(e.ref)) json.member("value", *value);
      json.end_object();
    }
    json.end_array();
    if (o.to_file()) json.member("output", o.out);
  });
}

Problem no_such_word(const ExtractOptions& o, const std::string& word, const std::string& path) {
  Problem p = make_problem(ProblemId::key_missing, {.path = path}, word);
  if (word != o.key) p.hint = "a file to write ends in .npy, .npz, .pt, .safetensors, .raw, .txt or .json, or has a --format";
  return p;
}

int write_keys(const ExtractOptions& o, KeyRule::Kind rule, WriteReport& report, Context& context) {
  const bool is_one = rule == KeyRule::Kind::kKey;
  SelectOptions select = o.select(rule);
  select.dtypes = o.dtypes();
  report.request = {.read = o.read(),
                    .select = std::move(select),
                    .map = {},
                    .slice = o.part(),
                    .output = {.path = o.out, .kind = kind_of(o.form), .one_value = is_one, .check_crcs = o.slice.empty() && !o.no_verify},
                    .expect = {},
                    .replace = o.force ? Replace::kYes : Replace::kNo,
                    .sync = !o.no_sync};
  write(report.request, context, report.result, [&] {
    report.result.selected.selection.dropped_by_rules = {};  // that is what was asked for
    report.describe(context);
    note_unchecked(o, context);
  });
  return report.done(context);
}

// The values of all keys below a dict, or that match a glob. Throws `missing` if there are none.
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
  for (const Problem& p : found.findings) {
    if (p.severity < Severity::kDamage) continue;
    if (p.id == ProblemId::duplicates_differ) {  // as for one key: no rank's value is the value
      Problem error = p;
      error.severity = Severity::kError;
      throw Error(std::move(error));
    }
    context.warn(context.line_of(p));
  }
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

}  // namespace

int extract_file(const ExtractOptions& o, Context& context) {
  WriteReport report(o.source.path, o.out);
  return report.around(context, [&] {
    try {
      return write_keys(o, o.more.empty() ? KeyRule::Kind::kKey : KeyRule::Kind::kInclude, report, context);
    } catch (const Error& e) {
      if (e.problem().id != ProblemId::key_missing || !o.more.empty()) throw;
      if (!o.may_be_several()) throw;
      report.result = {};
      try {
        return write_keys(o, KeyRule::Kind::kInclude, report, context);
      } catch (const Error& none) {
        if (none.problem().id != ProblemId::nothing_selected) throw;
        throw e;
      }
    }
  });
}

std::string extract_value(const ExtractOptions& o, Context& context) {
  if (!o.more.empty()) return extract_subtree(o, make_problem(ProblemId::key_missing, {.path = o.source.path}, o.key), context);
  std::optional<Extraction> opened;
  try {
    opened.emplace(ExtractRequest{.read = o.read(), .key = o.key, .slice = o.part(), .dtypes = o.dtypes(), .check_crcs = !o.no_verify},
                   context);
  } catch (const Error& e) {
    if (e.problem().id != ProblemId::key_missing || !o.may_be_several() || !o.is_text() || !o.dtype.empty()) throw;
    return extract_subtree(o, e.problem(), context);
  }
  Extraction& found = *opened;
  if (!found.is_object() && !o.dtype.empty() && found.dtype() != parse_dtype(o.dtype))
    context.info("not cast: " + std::string(facts_of(found.dtype()).name) +
                 (is_cast_target(found.dtype()) ? " of a packed weight, whose bits are no values; --raw casts it"
                                                : " is not a floating-point dtype"));
  const auto out = [&](std::string_view text) {
    if (!write_fd(STDOUT_FILENO, text)) throw ReaderGone();
  };
  note_unchecked(o, context);
  if (o.form == ExtractForm::kText && !o.to_file()) return context.print(text_of(o, found, context)), document_of(o, found);
  if (!found.is_object() && (o.form == ExtractForm::kNpy || o.form == ExtractForm::kNpz)) note_numpy_bits(found.dtype(), context);
  if (!o.to_file()) {
    if (!o.is_text() && ::isatty(STDOUT_FILENO) == 1)
      fail(ProblemId::usage, {}, "binary data for a terminal", "-o FILE, a redirection or a pipe");
    try {
      if (o.form == ExtractForm::kJson) emit_json(o, found, out);
      else found.stream(kind_of(o.form), [&](Bytes bytes) { out(as_text(bytes)); });
    } catch (const ReaderGone&) {  // as `head` does: what is not wanted is not read
    }
    return document_of(o, found);
  }
  std::string text;
  const auto emit = [&](const TextOut& to) {
    if (o.form == ExtractForm::kJson) return emit_json(o, found, to);
    if (text.empty()) text = text_of(o, found, context);
    to(text);
  };
  found.save(o.out, emit, {.replace = o.force ? Replace::kYes : Replace::kNo, .sync = !o.no_sync});
  std::string document = document_of(o, found);
  if (context.common.json) context.print(document);
  else if (!context.common.quiet) context.print("wrote " + escaped(o.out) + "\n");
  return document;
}

std::string extract_stats(const ExtractOptions& o, Context& context) {
  StatsResult found;
  stats({.read = o.read(), .select = {.rules = {{KeyRule::Kind::kKey, o.key}}}, .slice = o.part()}, context, found);
  if (found.tensors.empty())
    fail(ProblemId::usage, {.path = found.checkpoint, .tensor = o.key, .object = true}, "--stats of an object", "a tensor");
  const KeyStats& k = found.tensors.front();
  if (k.fault) throw Error(*k.fault);
  std::string document = json_document([&](JsonWriter& json) {
    json.member("schema", "dcpctl.extract/1").member("path", o.source.path).member("kind", "stats");
    stats_json(json, k);
    if (!o.slice.empty()) json.member("slice", o.slice);
  });
  note_unchecked(o, context);
  context.print(context.common.json ? document : stats_text(k));
  return document;
}

}  // namespace dcp::cmd
