#include "report/verify_report.h"

#include <unistd.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <tuple>

#include "app/ranked_run.h"
#include "base/text.h"
#include "line/exit_status.h"
#include "line/lines.h"
#include "line/option_values.h"
#include "line/problem_words.h"
#include "report/inspect_text.h"
#include "report/selection_report.h"
#include "report/stats_report.h"
#include "report/step_text.h"
#include "report/write_report.h"
#include "request/source.h"

namespace dcp::cmd {
namespace {

// From a manifest: the checkpoint may be whole and yet another one.
bool is_difference(const Problem& p) {
  const bool is_of_model = p.id == ProblemId::shards_equal || p.id == ProblemId::model_differs;
  return p.severity == Severity::kDamage && class_of(p.id) == ProblemClass::kAnswerNo && !is_of_model;
}

bool has_not_finite(const std::optional<StatsResult>& stats) { return stats && !not_finite_text(*stats).empty(); }

// ", NaN in 2 tensors".
std::string not_finite(const std::optional<StatsResult>& stats) {
  if (!stats) return {};
  return has_not_finite(stats) ? not_finite_text(*stats) : ", no NaN, no inf";
}

}  // namespace

int VerifyReport::exit_code() const {
  if (result.count(Severity::kError) > 0) return static_cast<int>(Exit::kMachine);
  const bool no = result.count(Severity::kDamage) > 0 || fails(fail_on, result.findings) || (fail_on.nan() && has_not_finite(stats));
  return static_cast<int>(no ? Exit::kAnswerNo : Exit::kOk);
}

std::string_view VerifyReport::word() const {
  if (error_) return word_of(*error_);
  const auto differs = static_cast<uint64_t>(std::ranges::count_if(result.findings, is_difference));
  if (result.count(Severity::kDamage) > differs) return "damaged";
  if (result.count(Severity::kError) > 0) return "cannot be read";
  if (differs > 0) return "differs";
  const bool is_whole = std::ranges::find(result.findings, ProblemId::unfinished_save, &Problem::id) == result.findings.end();
  return is_whole ? "whole" : "unfinished";
}

// Of what has been looked at, and no more.
std::string VerifyReport::verdict() const {
  const auto differs = static_cast<uint64_t>(std::ranges::count_if(result.findings, is_difference));
  if (result.count(Severity::kDamage) > differs) return "damaged";
  if (result.count(Severity::kError) > 0) return "cannot be read";
  if (differs > 0) return "differs from the manifest";
  if (!against.empty()) return "matches the manifest";
  if (result.left_out_records > 0) {
    const uint64_t read = result.data_records - std::min(result.data_records, result.left_out_records);
    const uint64_t checked = read - std::min(read, result.records_without_crc);
    if (checked == 0) return "structure is whole, data not checked" + std::string(read > 0 ? ": it has no CRCs" : "");
    return "structure is whole, " + grouped(checked) + " of " + counted(result.data_records, "data record") + " checked";
  }
  if (result.records_without_crc == 0) return "no damage";
  if (result.records == 0) return "structure is whole, data not checked: it has no CRCs";
  return "no damage where there are CRCs, " + counted(result.records_without_crc, "record") + " not checked";
}

std::string VerifyReport::summary() const {
  std::string text;
  if (result.tensors_of_map && (*result.tensors_of_map < result.tensors || result.objects > 0))
    text += " in what the map reads, " + counted(*result.tensors_of_map, "tensor");
  std::string counts;
  const auto add = [&](uint64_t n, const char* one) {
    if (n > 0) counts += (counts.empty() ? " (" : ", ") + counted(n, one);
  };
  add(result.count(Severity::kError), "read error");
  add(result.count(Severity::kDamage), "finding");
  add(result.count(Severity::kWarning), "warning");
  if (result.selected) text += " in what is selected";
  text += counts.empty() ? "" : counts + ")";
  const auto of = [&](uint64_t selected, uint64_t all) { return result.selected && all > 0 ? grouped(selected) + " of " : ""; };
  text += ": " + of(result.of().tensors, result.tensors) + counted(result.tensors, "tensor") + ", " +
          of(result.of().objects, result.objects) + counted(result.objects, "object") + ", " + counted(result.chunks, "chunk") + " in " +
          counted(result.files, "file") + "\n";
  text += "  " + counted(result.records, "CRC") + " compared";
  if (result.records_without_crc > 0) text += ", " + counted(result.records_without_crc, "record") + " without one";
  text += "; " + human_bytes(result.bytes) + " read in " + done_in(result.bytes, result.nanoseconds) + ", peak memory " +
          human_bytes(peak_rss_bytes()) + "\n";
  if (result.left_out_records > 0)
    text += "  left out by " + left_out_by + ": " + grouped(result.left_out_records) + " of " +
            counted(result.data_records, "data record") + ", " + human_bytes(result.left_out_bytes) + " of " +
            human_bytes(result.data_bytes) + "\n";
  if (result.left_out_findings > 0)
    text += "  " + counted(result.left_out_findings, "finding") + " about keys that are left out " +
            (result.left_out_findings == 1 ? "does" : "do") + " not count\n";
  if (!against.empty())
    text += "  " + counted(result.compared_keys, "key") + " and " + counted(result.compared_files, "file") + " compared with " +
            escaped(against) + "\n";
  if (result.wrote_manifest && manifest != "-") text += "  manifest: " + escaped(manifest) + "\n";
  return text;
}

// What is left of a damaged checkpoint, and the command that still writes it.
std::string VerifyReport::whole_text() const {
  const Harm& harm = *result.harm;
  const auto of = [](uint64_t whole, uint64_t all, const char* one) {
    return (whole == all ? "all " + grouped(all) : grouped(whole) + " of " + grouped(all)) + " " + one + (all == 1 ? "" : "s");
  };
  const VerifyResult::Selected all = result.of();
  std::string text = "  " + of(all.tensors - harm.tensors, all.tensors, "tensor");
  if (all.objects > 0) text += " and " + of(all.objects - harm.objects, all.objects, "object");
  text += result.selected ? " of what is selected are whole" : " are whole";
  const std::string lost = harm.lost.empty() ? "\n" : "\n  lost: " + folded_names(harm.lost) + "\n";
  constexpr size_t kNamed = 5;
  const bool are_shards = std::ranges::find(result.findings, ProblemId::ranks_are_shards, &Problem::id) != result.findings.end();
  if (are_shards || !harm.has_one_model || harm.of_model.size() == harm.model_keys || harm.of_model.size() > kNamed) return text + lost;
  text += harm.of_model.empty() ? ", the model's among them" : "";
  text += "; 'dcpctl consolidate " + shell_word(result.checkpoint) + " OUT --model-only" + opened_with;
  for (const std::string& key : harm.of_model) text += " --exclude " + shell_word(key);
  return text + "' writes " + (harm.of_model.empty() ? "it" : "the others of the model") + lost;
}

void VerifyReport::print(const Context& context) const {
  const bool color = context.colored(manifest == "-" ? STDERR_FILENO : STDOUT_FILENO);
  std::string text;
  constexpr uint64_t kOfOneKind = 50;
  std::map<ProblemId, uint64_t> shown;
  std::set<std::string_view> hints;  // each is said once
  for (const Problem& p : result.findings) {
    if (context.common.quiet && p.severity < Severity::kDamage && !fails(fail_on, {p})) continue;
    if (++shown[p.id] > kOfOneKind && !context.common.verbose) continue;
    text += styled(severity_word(p.severity), style_of(p.severity), color) + " " + to_line(p) + "\n";
    if (!p.hint.empty() && hints.insert(p.hint).second) text += "  " + escaped(p.hint) + "\n";
  }
  for (const auto& [id, count] : shown)
    if (count > kOfOneKind && !context.common.verbose)
      text += "and " + grouped(count - kOfOneKind) + " more: " + std::string(text_of(id)) + " (-v and --json name all)\n";
  if (!context.common.quiet) {
    const bool is_bad = result.is_damaged(), is_whole = result.left_out_records + result.records_without_crc == 0 || !against.empty();
    const std::string path = result.checkpoint.empty() ? source : result.checkpoint;  // of a run the step
    const Style style = is_bad ? Style::kRed : is_whole && !has_not_finite(stats) ? Style::kGreen : Style::kYellow;
    text += escaped(path) + ": " + styled(verdict() + not_finite(stats), style, color) + summary();
  }
  if (result.harm && result.left_out_records == 0 && !context.common.quiet) text += whole_text();
  if (manifest == "-" && context.prints) write_fd(STDERR_FILENO, fitted(context, text, STDERR_FILENO));
  context.print(manifest == "-" ? result.manifest : fitted(context, text, STDOUT_FILENO));
}

// "run/step-20: damaged: __1_0.distcp: a data file of the checkpoint is missing, and 2 more findings".
void VerifyReport::print_line(const Context& context) const {
  const std::string_view state = word();
  if (context.common.json || (context.common.quiet && exit_ == 0)) return;
  const bool is_bad = state == "damaged" || state == "cannot be read" || state == "differs";
  const bool color = context.colored(STDOUT_FILENO);
  std::string text = escaped(source) + ": ";
  if (state == "whole") {
    text += styled(verdict() + not_finite(stats), has_not_finite(stats) ? Style::kYellow : Style::kGreen, color) + ": " +
            counted(result.tensors, "tensor") + ", " + human_bytes(result.data_bytes) + " of data";
  } else {
    text += styled(state, is_bad ? Style::kRed : Style::kYellow, color);
    const auto worst =
        static_cast<uint64_t>(std::ranges::count_if(result.findings, [](const Problem& p) { return p.severity >= Severity::kDamage; }));
    if (error_) text += ": " + fault_text(*error_, source);
    else if (!result.findings.empty()) text += ": " + fault_text(result.findings.front(), source);
    if (worst > 1) text += ", and " + counted(worst - 1, "more finding");
  }
  context.print(fitted(context, text + "\n", STDOUT_FILENO));
}

void VerifyReport::json(JsonWriter& out) const {
  out.member("schema", "dcpctl.verify/1").member("exit", exit_).member("path", source);
  if (!result.checkpoint.empty() && result.checkpoint != source) out.member("checkpoint", result.checkpoint);
  out.member("verdict", word());
  if (error_) error_json(out.key("error"), *error_);
  if (result.kind) out.member("kind", traits_of(*result.kind).name);
  out.key("summary")
      .begin_object()
      .member("tensors", result.tensors)
      .member("blobs", result.objects)
      .member("chunks", result.chunks)
      .member("files", result.files)
      .end_object();
  if (result.selected)
    out.key("selected").begin_object().member("tensors", result.selected->tensors).member("blobs", result.selected->objects).end_object();
  out.key("checked").begin_object();
  if (result.tensors_of_map) out.member("tensors_of_map", *result.tensors_of_map);
  out.member("records", result.records)
      .member("records_without_crc", result.records_without_crc)
      .member("bytes_read", result.bytes)
      .end_object();
  out.key("left_out").begin_object().member("data_records", result.left_out_records).member("data_bytes", result.left_out_bytes);
  out.member("of_data_records", result.data_records).member("of_data_bytes", result.data_bytes).end_object();
  if (!against.empty())
    out.key("against")
        .begin_object()
        .member("path", against)
        .member("keys", result.compared_keys)
        .member("files", result.compared_files)
        .end_object();
  if (result.left_out_findings > 0) out.member("left_out_findings", result.left_out_findings);
  if (result.harm)
    out.key("whole")
        .begin_object()
        .member("tensors", result.of().tensors - result.harm->tensors)
        .member("blobs", result.of().objects - result.harm->objects)
        .member("damaged_model_keys", result.harm->of_model)
        .member("lost_keys", result.harm->lost)
        .end_object();
  if (result.wrote_manifest) out.member("manifest", manifest);
  out.key("findings").begin_array();
  for (const Problem& p : result.findings) finding_json(out, p);
  out.end_array();
  unsafe_json(out, result.unsafe);
  if (stats) stats_json(out, *stats);
  out.member("seconds", static_cast<double>(result.nanoseconds) / 1e9).member("peak_memory_bytes", peak_rss_bytes());
}

std::string VerifyReport::document() const {
  return json_document([&](JsonWriter& out) { json(out); });
}

int VerifyReport::done(const Context& context) {
  for (Problem& p : result.findings) p = worded(std::move(p));
  exit_ = exit_code();
  if (context.common.json) context.print(document());
  else if (of_run) print_line(context);
  else print(context);
  if (!of_run && !context.common.json && !context.common.quiet) print_values(context);
  return exit_;
}

std::string VerifyReport::html(InspectResult found) const {
  found.findings = result.findings;
  const bool is_bad = result.is_damaged() || exit_ != 0;
  InspectMore more{.command = "dcpctl verify",
                   .verdict = verdict() + not_finite(stats),
                   .tone = is_bad                                                                ? "bad"
                           : result.count(Severity::kWarning) > 0 || result.left_out_records > 0 ? "warn"
                                                                                                 : "good",
                   .checked = {.label = "checked", .value = counted(result.records, "CRC"), .note = human_bytes(result.bytes) + " read"},
                   .stats = stats ? &*stats : nullptr};
  if (result.left_out_records > 0)
    more.checked.note +=
        "; " + grouped(result.left_out_records) + " of " + counted(result.data_records, "data record") + " left out by " + left_out_by;
  if (result.records_without_crc > 0) more.checked.note += "; " + counted(result.records_without_crc, "record") + " without one";
  if (result.harm && result.left_out_records == 0) more.note = whole_text();
  return inspect_html(found, more);
}

void VerifyReport::print_values(const Context& context) const {
  if (!stats || (!all_stats && !has_not_finite(stats))) return;
  StatsResult shown = *stats;
  if (!all_stats) std::erase_if(shown.tensors, [](const KeyStats& k) { return k.stats.nan + k.stats.infinite == 0; });
  print_stats(shown, context.several ? source : "", context);
}

// Of a run's steps an unfinished one is no failure: a save may be under way, or was interrupted.
int VerifyReport::exit_of_step() const {
  if (word() == "unfinished") return static_cast<int>(fail_on.warnings() ? Exit::kAnswerNo : Exit::kOk);
  return static_cast<int>(exit_of(*error_));
}

int VerifyReport::around(Context& context, const std::function<int()>& body) {
  if (const auto fault = report_fault(context, source, manifest)) return report_error(context, *fault);
  try {
    body();
  } catch (const std::exception& error) {
    error_ = context.worded(resolve_failure(context, error));
    const ProblemClass c = class_of(error_->id);
    const bool is_of_step = of_run && (c == ProblemClass::kInput || c == ProblemClass::kMachine);
    exit_ = is_of_step ? exit_of_step() : report_error(context, *error_);
    if (is_of_step) print_line(context);
  }
  if (context.prints) save_report(context, document());
  return exit_;
}

std::string tally_text(const std::vector<std::string>& documents, TallyWords words, int& exit) {
  std::map<std::string, uint64_t> counts;
  std::map<size_t, std::string> verdicts;  // by what is counted: that of its first part which is not whole
  uint64_t left_out = 0, with_nan = 0;
  for (size_t n = 0; n < documents.size(); ++n) {
    const nlohmann::json d = nlohmann::json::parse(documents[n], nullptr, false);
    if (!d.is_object()) continue;
    std::string& verdict = verdicts.try_emplace(n < words.parts_of.size() ? words.parts_of[n] : n, "whole").first->second;
    if (verdict == "whole") verdict = d.value("verdict", "cannot be read");
    left_out += d.value("/left_out/data_bytes"_json_pointer, uint64_t{0});
    for (const auto& tensor : d.value("stats", nlohmann::json::array()))
      if (tensor.value("nan", 0) + tensor.value("inf", 0) > 0) {
        ++with_nan;
        break;
      }
  }
  for (const auto& [number, verdict] : verdicts) ++counts[verdict];
  const uint64_t whole = counts["whole"], all = words.parts_of.empty() ? documents.size() : words.parts_of.back() + 1;
  if (whole == 0) exit = std::max(exit, static_cast<int>(Exit::kAnswerNo));
  const bool is_one = left_out > 0 || whole == 1 || all == 1;
  std::string text = (left_out > 0 ? "the structure of " : "") + grouped(whole) + " of " + counted(all, words.one) +
                     (is_one ? " is" : " are") + " whole",
              others;
  for (const char* word : {"damaged", "differs", "cannot be read", "unfinished"})
    if (counts[word] > 0) others += (others.empty() ? "; " : ", ") + grouped(counts[word]) + " " + word;
  text += others;
  if (with_nan > 0) text += "; NaN or inf in " + grouped(with_nan);
  if (left_out > 0) text += "; " + human_bytes(left_out) + " of data not read" + words.reads_data;
  return text + "\n";
}

}  // namespace dcp::cmd
