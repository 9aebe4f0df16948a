#include "report/extract_value.h"

#include <unistd.h>

#include <optional>

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
  json.begin_object().member("schema", "dcpctl.extract/1").member("path", o.source.path).member("key", found.key());
  if (found.checkpoint() != o.source.path) json.member("checkpoint", found.checkpoint());
  json.member("kind", found.is_object() ? "object" : "tensor");
  if (found.is_object()) return;
  json.member("dtype", facts_of(found.dtype()).name).key("shape").begin_array();
  for (const int64_t n : found.shape()) json.value(n);
  json.end_array();
  if (!o.slice.empty()) json.member("slice", o.slice);
}

PrintBound bound_of(const PickleGraph& object, const Extraction& found) {
  return {object, {.path = found.checkpoint(), .tensor = std::string(found.key()), .object = true}};
}

void emit_json(const ExtractOptions& o, Extraction& found, const TextOut& out) {
  JsonWriter json(out);
  if (found.is_object()) {
    const PickleGraph object = found.object();
    check_object_json(object, bound_of(object, found));
    head_json(json, o, found);
    json.key("value");
    object_json(json, object);
  } else {
    found.check();
    head_json(json, o, found);
    json.key("values");
    values_json(json, found);
  }
  json.end_object();
  json.finish();
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
  std::string document;
  JsonWriter json([&](std::string_view text) { document += text; });
  head_json(json, o, found);
  if (o.to_file()) json.member("output", o.out);
  json.end_object();
  json.finish();
  return document;
}

}  // namespace

namespace {

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
  std::string document;
  JsonWriter json([&](std::string_view text) { document += text; });
  json.begin_object().member("schema", "dcpctl.extract/1").member("path", o.source.path).member("kind", "stats");
  stats_json(json, k);
  if (!o.slice.empty()) json.member("slice", o.slice);
  json.end_object();
  json.finish();
  note_unchecked(o, context);
  context.print(context.common.json ? document : stats_text(k));
  return document;
}

}  // namespace dcp::cmd
