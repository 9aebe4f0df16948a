#include "report/write_report.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <set>

#include "app/expect.h"
#include "app/ranked_run.h"
#include "base/text.h"
#include "format/npy.h"
#include "line/lines.h"
#include "line/problem_words.h"
#include "report/dcp_output.h"
#include "report/findings.h"
#include "report/selection_report.h"
#include "request/dtype_flags.h"
#include "request/map_flags.h"
#include "request/ranks_flags.h"

namespace dcp::cmd {
namespace {

void expectation_json(JsonWriter& json, const Expectation& e) {
  if (e.reference.empty()) return;
  constexpr std::string_view kMembers[kDifferenceKinds] = {"missing", "unexpected", "shape", "dtype"};
  constexpr uint64_t kShown = 1000;  // of each kind
  json.key("expect").begin_object().member("reference", e.reference).member("differences", uint64_t{e.differences.size()});
  if (e.may_lack_shards) json.member("incomplete", true);
  for (size_t k = 0; k < kDifferenceKinds; ++k) {
    json.key(kMembers[k]).begin_array();
    uint64_t shown = 0;
    for (const Difference& d : e.differences) {
      if (static_cast<size_t>(d.kind) != k || ++shown > kShown) continue;
      json.begin_object().member("key", d.key);
      if (!d.got.empty()) json.member("got", d.got);
      if (!d.expected.empty()) json.member("expected", d.expected);
      json.end_object();
    }
    json.end_array();
  }
  if (!e.additional.empty()) json.member("additional_objects", e.additional);
  json.end_object();
}

std::string_view member_of(Overflow overflow) {
  return overflow == Overflow::kInfinity ? "became_inf" : overflow == Overflow::kNan ? "became_nan" : "saturated";
}

// "12 became inf, 3 became zero"
std::string losses_text(const CastLosses& inf, const CastLosses& nan, const CastLosses& largest) {
  std::string text;
  const auto add = [&](uint64_t n, const char* what) {
    if (n > 0) text += (text.empty() ? "" : ", ") + grouped(n) + what;
  };
  add(inf.overflowed, " became inf");
  add(nan.overflowed, " became NaN");
  add(largest.overflowed, " saturated");
  add(inf.zeroed + nan.zeroed + largest.zeroed, " became zero");
  return text;
}

}  // namespace

void notes_json(JsonWriter& out, std::string_view name, const std::vector<KeyNote>& notes) {
  out.key(name).begin_array();
  for (const KeyNote& n : notes) out.begin_object().member("key", n.key).member("why", n.text).end_object();
  out.end_array();
}

void note_numpy_bits(DType dtype, Context& context) {
  if (is_numpy_dtype(dtype)) return;
  const std::string name(facts_of(dtype).name);
  const bool castable = facts_of(dtype).kind == DTypeKind::kFloat;
  context.info("numpy has no " + name + ": its bits are there as uint" + std::to_string(8 * bytes_of(dtype)) +
               (castable ? "; --dtype float32 converts it" : ""));
}

void WriteReport::describe_casts(Context& context) const {
  const CastSummary& casts = result.selected.selection.casts;
  if (!casts.requested) return;
  if (!request.dry_run && casts.tensors > 0) context.info(cast_text(casts));
  if (casts.kept_non_model > 0)
    context.info("did not cast " + counted(casts.kept_non_model, "floating-point tensor") +
                 " outside the model; --dtype-scope all casts them too");
  if (casts.kept_scales > 0)
    context.info("did not cast " + counted(casts.kept_scales, "tensor") + " named like scales, or like parts of other tensors, such as '" +
                 escaped(casts.scale_example) + "'; --dtype-rule 'GLOB=DTYPE' casts them too");
  if (casts.kept_float32 > 0)
    context.info("left " + counted(casts.kept_float32, "tensor") + " in float32, as transformers does for this model, such as '" +
                 escaped(casts.float32_example) + "'; --dtype-rule 'GLOB=DTYPE' casts them too");
  if (casts.kept_packed > 0)
    context.info("did not cast " + counted(casts.kept_packed, "tensor") + " of packed weights, whose bits are no values, such as '" +
                 escaped(casts.packed_example) + "'; --raw casts them too");
}

std::vector<std::string> WriteReport::unmatched() const {
  const Selection& s = result.selected.selection;
  std::vector<std::string> all = unmatched_rules(s);
  const Plan& plan = *result.plan;
  const auto& items = plan.items;
  for (const std::string& glob : plan.dcp ? plan.dcp->unmatched_placements
                                 : items  ? items->unmatched_placements
                                          : std::vector<std::string>())
    all.push_back("--placements '" + escaped(glob) + "' matches no tensor that an earlier one leaves");
  if (s.casts.requested && s.casts.tensors == 0 && (request.select.dtypes.dtype || s.casts.unmatched_rules.empty()))
    all.push_back(s.state.models.empty() && s.casts.kept_non_model > 0
                      ? "nothing is cast: no tensor is taken for a model's"
                      : "nothing is cast: the tensors to cast have the requested dtypes already");
  return all;
}

void WriteReport::describe_losses(Context& context) const {
  std::array<CastLosses, 3> sums;  // by Overflow
  std::vector<std::string> lost, broken;
  uint64_t not_finite = 0;
  for (const TensorLosses& t : result.executed.losses) {
    sums[static_cast<size_t>(t.overflow)] += t.values;
    if (t.values.overflowed + t.values.zeroed > 0) lost.push_back(t.key);
    if (t.values.not_finite > 0) broken.push_back(t.key);
    not_finite += t.values.not_finite;
  }
  if (not_finite > 0)
    context.warn("warning: " + counted(not_finite, "value") + (not_finite == 1 ? " is" : " are") +
                 " NaN or inf in the source: " + folded_names(broken));
  if (lost.empty()) return;
  context.info("values lost by casting: " + losses_text(sums[0], sums[1], sums[2]) + ", in " + counted(lost.size(), "tensor") +
               ", such as '" + escaped(lost.front()) + "'");
  for (const TensorLosses& t : result.executed.losses) {
    std::array<CastLosses, 3> one;
    one[static_cast<size_t>(t.overflow)] = t.values;
    const std::string text = losses_text(one[0], one[1], one[2]);
    if (!text.empty()) context.verbose("  " + escaped(t.key) + ", " + from_to(t) + ": " + text);
  }
}

void WriteReport::describe(Context& context) const {
  constexpr size_t kMaxWarnings = 8;
  for (size_t i = 0; i < result.warnings.size() && i < kMaxWarnings; ++i)
    context.info(std::string(severity_word(result.warnings[i].severity)) + " " + to_line(worded(result.warnings[i])));
  if (result.warnings.size() > kMaxWarnings) context.info("and " + counted(result.warnings.size() - kMaxWarnings, "more warning"));
  if (result.selected.map) cmd::describe(*result.selected.map, context);
  if (const Filled& f = result.filled; !f.model.empty())
    context.info(f.keys.empty() ? "nothing is missing that " + escaped(f.model) + " has"
                                : "took " + counted(f.keys.size(), "tensor") + ", " + human_bytes(f.bytes) + ", from " + escaped(f.model) +
                                      ": " + folded_names(f.keys));
  if (const auto& made = result.reformed) {
    const std::string text = (made->joined == 0 ? "" : "warning: ") + std::string("optimizer: ") + counted(made->parameters, "parameter") +
                             " in " + counted(made->groups, "group");
    if (made->joined == 0) context.info(text + (made->changed == 0 ? ", which have this form already" : ""));
    else
      context.warn(
          text +
          ": the flat form does not name groups, so neighbouring ones with equal values became one; a trainer with more does not load it");
  }
  describe_selection(context, result.selected.selection);
  describe_plan(context);
  describe_casts(context);
  describe_unmatched(context, unmatched());
  if (request.output.kind == OutputRequest::Kind::kNpy || request.output.kind == OutputRequest::Kind::kNpz) {
    std::set<DType> dtypes;
    for (const Region& r : result.plan->regions) dtypes.insert(r.dtype);
    for (const DType dtype : dtypes) note_numpy_bits(dtype, context);
  }
  const uint64_t unchecked = result.plan->unchecked_records;
  if (!result.catalog().traits().tensors_only && unchecked > 0)
    context.info(counted(unchecked, "record") + " without a CRC: their writer computed none");
}

// By the selection, and by an output whose form has none.
LeftOut WriteReport::objects_left_out() const {
  const Selection& s = result.selected.selection;
  LeftOut objects;
  const Catalog& opened = result.source->opened.catalog();
  for (const BlobId b : s.dropped_blobs) objects.add(opened.key(opened.blobs[b]));
  if (result.plan->left_out_blobs == 0) return objects;
  for (const Entry& e : s.entries)
    if (e.is_blob()) objects.add(result.catalog().key(e.ref));
  return objects;
}

void WriteReport::describe_plan(Context& context) const {
  const Selection& s = result.selected.selection;
  const SelectOptions& select = request.select;
  const Plan& plan = *result.plan;
  const Catalog& catalog = result.catalog();
  if (const LeftOut objects = objects_left_out(); objects.keys > 0)
    context.info("left out " + counted(objects.keys, "object") + " (not tensors)" + names_of(objects));
  if (s.dropped_states > 0) context.info("left out " + counted(s.dropped_states, "_extra_state") + " of Transformer Engine (no weights)");
  const bool all = !select.model_only && select.root.empty() && select.rules.empty();
  if (context.command == "consolidate" && all && is_more_than_model(s))
    context.info("kept everything" + std::string(catalog.has_planner_data ? ", nested as it was saved" : "") +
                 (s.state.models.size() > 1 ? "; --root takes one of the " + std::to_string(s.state.models.size()) + " models"
                                            : "; --model-only gives what model.load_state_dict takes"));
  if (plan.mcore_shapes) context.info(counted(catalog.mcore_shapes.size(), "tensor") + " with the shape that Megatron's mcore_data gives");
  LeftOut refused;
  for (const KeyNote& n : plan.left_out) refused.add(n.key);
  if (refused.keys > 0)
    context.info("left out " + counted(refused.keys, "object") + " that torch.load(weights_only=True) would refuse" + names_of(refused));
  for (const KeyNote& n : plan.left_out) context.verbose("  " + escaped(n.key) + ": " + escaped(n.text));
  if (!plan.unsafe.empty()) {
    const std::string names = plan.unsafe_globals.empty() ? std::string("newer opcodes") : list_of(plan.unsafe_globals);
    context.info("torch.load(weights_only=True) will refuse this file: " + counted(plan.unsafe.size(), "object") + " with " + names +
                 (context.command == "extract" ? "" : "; --weights-only-safe leaves them out"));
  }
  for (const KeyNote& n : plan.unsafe) context.verbose("  " + escaped(n.key) + ": " + escaped(n.text));
  if (plan.list_holes.count > 0)
    context.info("set " + counted(plan.list_holes.count, "list position") + " without a key to None, such as '" +
                 escaped(plan.list_holes.example) + "': an empty dict was there, which dcp.save drops, or its key was left out");
  for (const KeyNote& n : plan.converted) context.info("'" + escaped(n.key) + "' is converted: " + n.text);
  if (plan.dcp) describe_dcp(context, *plan.dcp);
  if (result.plan->items) describe_items(context, *result.plan->items);
}

void WriteReport::print_plan(const Context& context) const {
  const Plan& plan = *result.plan;
  std::string text =
      "would write " + escaped(output) + ": " + counted(plan.tensors.size(), "tensor") + ", " + human_bytes(plan.bytes_to_write) + "\n";
  if (plan.folder)
    for (const OutputFile& f : plan.files) text += "  " + f.name + "  " + human_bytes(f.bytes) + "\n";
  text += "  read " + human_bytes(plan.bytes_to_read) + ", write " + human_bytes(plan.bytes_to_write) + ", in " +
          counted(plan.units, "unit") + "\n";
  if (result.selected.selection.casts.tensors > 0) text += "  " + cast_text(result.selected.selection.casts) + "\n";
  text += "  peak memory " + human_bytes(result.planned_memory) + ", largest tensor " + human_bytes(plan.largest_tensor) + "\n";
  context.print(text);
}

void WriteReport::cast_keys_json(JsonWriter& out) const {
  out.key("keys").begin_array();
  for (const Entry& e : result.selected.selection.entries) {
    if (e.is_blob()) continue;
    const Tensor& t = result.catalog().tensors[e.tensor()];
    if (t.dtype_known && t.dtype != e.dtype)
      out.begin_object().member("key", e.key).member("from", facts_of(t.dtype).name).member("to", facts_of(e.dtype).name).end_object();
  }
  out.end_array();
}

void WriteReport::cast_json(JsonWriter& out) const {
  const CastSummary& casts = result.selected.selection.casts;
  out.key("cast")
      .begin_object()
      .member("tensors", casts.tensors)
      .member("bytes_before", casts.bytes_before)
      .member("bytes_after", casts.bytes_after);
  out.member("kept_non_model", casts.kept_non_model).member("kept_scales", casts.kept_scales).member("kept_packed", casts.kept_packed);
  out.member("kept_float32", casts.kept_float32);
  out.member("idle_rules", casts.unmatched_rules);
  out.member("models", casts.models);
  if (result.plan) cast_keys_json(out);
  out.member("fp8_overflow", request.fp8_overflow == Fp8Overflow::kNan ? "nan" : "saturate");
  out.key("losses").begin_array();
  for (const TensorLosses& t : result.executed.losses) {
    out.begin_object().member("key", t.key).member("from", facts_of(t.from).name).member("to", facts_of(t.to).name);
    if (t.values.overflowed > 0) out.member(member_of(t.overflow), t.values.overflowed);
    if (t.values.zeroed > 0) out.member("became_zero", t.values.zeroed);
    if (t.values.not_finite > 0) out.member("not_finite_before", t.values.not_finite);
    out.end_object();
  }
  out.end_array().end_object();
}

void WriteReport::plan_json(JsonWriter& out) const {
  const Plan& plan = *result.plan;
  const Catalog& catalog = result.catalog();
  out.key("files").begin_array();
  for (const OutputFile& f : plan.files)
    out.begin_object().member("name", f.name.empty() ? output : f.name).member("bytes", f.bytes).end_object();
  out.end_array();
  out.member("tensors", uint64_t{plan.tensors.size()}).member("elements", plan.elements).member("tensor_bytes", plan.tensor_bytes);
  out.member("largest_tensor_bytes", plan.largest_tensor).member("units", plan.units);
  out.member("planned_read_bytes", plan.bytes_to_read)
      .member("planned_write_bytes", plan.bytes_to_write)
      .member("planned_memory_bytes", result.planned_memory);
  selection_json(out, catalog, result.selected.selection, plan.left_out_blobs);
  notes_json(out, "left_out", plan.left_out);
  if (plan.list_holes.count > 0) out.member("list_holes", plan.list_holes.count);
  notes_json(out, "converted", plan.converted);
  notes_json(out, "unsafe", plan.unsafe);
  out.member("unsafe_globals", plan.unsafe_globals);
  out.member("records_without_crc", plan.unchecked_records)
      .member("mcore_shapes", plan.mcore_shapes ? uint64_t{catalog.mcore_shapes.size()} : 0);
  if (plan.dcp) dcp_json(out, *plan.dcp);
  if (result.plan->items) items_json(out, *result.plan->items);
}

void WriteReport::json(JsonWriter& out, const Context& context) const {
  out.member("schema", "dcpctl." + context.command + "/1").member("exit", exit_).member("path", source).member("output", output);
  const std::string& checkpoint = result.checkpoint;
  if (checkpoint != source && !checkpoint.empty()) out.member("checkpoint", checkpoint);
  out.member("dry_run", request.dry_run);
  if (error_) error_json(out.key("error"), *error_);
  if (!result.executed.damage.empty()) {
    out.key("damage").begin_array();
    for (const Problem& p : result.executed.damage) error_json(out, p);
    out.end_array();
  }
  out.key("warnings").begin_array();
  for (const Problem& p : result.warnings) finding_json(out, worded(p));
  out.end_array();
  out.member("notes", context.notes);
  if (result.plan && result.selected.map) map_json(out, *result.selected.map);
  if (const Filled& f = result.filled; result.plan && !f.model.empty())
    out.key("filled")
        .begin_object()
        .member("from", f.model)
        .member("tensors", uint64_t{f.keys.size()})
        .member("bytes", f.bytes)
        .member("keys", f.keys)
        .end_object();
  if (const auto& made = result.reformed; result.plan && made)
    out.key("optimizer")
        .begin_object()
        .member("optimizers", made->optimizers)
        .member("changed", made->changed)
        .member("groups", made->groups)
        .member("joined", made->joined)
        .member("parameters", made->parameters)
        .end_object();
  expectation_json(out, result.expectation);
  if (result.plan) plan_json(out);
  if (result.selected.selection.casts.requested) cast_json(out);
  out.member("records_checked", result.executed.records_checked).member("verified_after", result.verified_after);
  ranks_json(out, context,
             {.bytes_read = result.executed.bytes_read,
              .bytes_written = result.executed.bytes_written,
              .nanoseconds = result.nanoseconds,
              .peak_bytes = peak_rss_bytes()});
  out.member("peak_memory_bytes", peak_rss_bytes());
}

int WriteReport::done(Context& context) {
  describe_losses(context);
  document_ = json_document([&](JsonWriter& out) { json(out, context); });
  if (context.common.json) context.print(document_);
  else if (request.dry_run) print_plan(context);
  else if (!context.common.quiet)
    context.print(fitted(context,
                         "wrote " + escaped(output) + ": " + counted(result.plan->tensors.size(), "tensor") + ", " +
                             human_bytes(result.plan->bytes_to_write) + " in " + done_in(result.plan->bytes_to_write, result.nanoseconds) +
                             ", peak memory " + human_bytes(peak_rss_bytes()) + "\n",
                         STDOUT_FILENO));
  return exit_;
}

int WriteReport::around(Context& context, const std::function<int()>& body) {
  if (const auto fault = report_fault(context, source, output)) return report_error(context, *fault);
  const uint64_t begin = context.io.now_ns();
  try {
    exit_ = body();
  } catch (const std::exception& error) {
    error_ = context.worded(resolve_failure(context, error));
    exit_ = report_error(context, *error_);
    result.nanoseconds = context.io.now_ns() - begin;
    result.release();  // so that there is memory for the report
    document_ = json_document([&](JsonWriter& out) { json(out, context); });
  }
  if (context.prints) save_report(context, document_);
  return exit_;
}

}  // namespace dcp::cmd
