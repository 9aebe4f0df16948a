#include "report/inspect_answer.h"

#include <algorithm>

#include "app/output.h"
#include "base/json.h"
#include "line/text_file.h"
#include "report/inspect_mapped.h"
#include "report/selection_report.h"
#include "report/stats_report.h"

namespace dcp::cmd {
namespace {

// The requested statistics of tensors, in addition to the answer or instead of it.
std::optional<StatsResult> stats_of(const InspectOptions& o, const SelectOptions& select, Context& context) {
  if (o.stats.empty()) return std::nullopt;
  StatsResult result;
  SelectOptions plain = select;
  plain.dtypes = {};
  stats({.read = {.source = o.source.request(), .max_memory = reading_cap(o.max_memory), .threads = o.threads},
         .select = std::move(plain),
         .glob = o.stats},
        context, result);
  if (result.tensors.empty()) context.info("warning: --stats '" + escaped(o.stats) + "' matches no tensor");
  for (const KeyStats& k : result.tensors)
    if (k.fault) context.warn(context.line_of(*k.fault));
  return result;
}

// What a map would make of the checkpoint.
InspectAnswer mapped_answer(const InspectOptions& o, const InspectResult& found, Context& context) {
  if (context.common.json) inspect_mapped_json(found, [&](std::string_view text) { context.print(text); });
  else inspect_mapped_text(found, o.style.view, context);
  if (!o.html.empty()) save_small_file(context, o.html, inspect_mapped_html(found), {.sync = false});
  InspectAnswer a;
  if (!context.common.report.empty()) inspect_mapped_json(found, [&](std::string_view text) { a.document += text; });
  check_holds(*found.map, context);
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

}  // namespace

InspectAnswer inspect_answer(const InspectOptions& o, Context& context) {
  if (!o.html.empty())
    if (auto fault = text_file_fault(context.io, {"--html", o.html, "<!doctype html>"}, o.source.path, "")) throw Error(std::move(*fault));
  SelectOptions select = o.keys.select_options(context);
  select.keep_root = true;  // where the model lies is part of the answer
  select.dtypes = o.dtypes.options();
  o.map.check_config(!o.dtypes.dtype.empty());
  InspectResult found;
  SourceRequest source = o.source.request();
  source.show_rest = true;
  inspect({.source = source,
           .max_memory = reading_cap(o.max_memory),
           .look_into_all = o.fail_on.unsafe(),
           .map = o.map.request(),
           .select = select},
          context, found);
  sort_naturally(found.findings);
  if (found.map) return mapped_answer(o, found, context);
  InspectAnswer a{.document = {}, .exit = exit_of(found, o.fail_on)};
  describe_unmatched(context, unmatched_rules(found.selection));
  if (!o.html.empty()) save_small_file(context, o.html, inspect_html(found), {.sync = false});
  const std::optional<StatsResult> values = stats_of(o, select, context);
  if (values && a.exit != Exit::kMachine)
    for (const KeyStats& k : values->tensors)
      if (k.fault) a.exit = std::max(a.exit, class_of(k.fault->id) == ProblemClass::kMachine ? Exit::kMachine : Exit::kAnswerNo);
  const auto more = [&](JsonWriter& json) {
    if (values) stats_json(json, *values);
    if (o.style.view == InspectView::kRanks) holdings_json(json, holdings_of(found));
  };
  if (context.common.json) inspect_json(found, [&](std::string_view text) { context.print(text); }, more);
  else if (values) print_stats(*values, context);
  else inspect_text(found, o.style, context);
  if (!context.common.report.empty()) inspect_json(found, [&](std::string_view text) { a.document += text; }, more);
  return a;
}

}  // namespace dcp::cmd
