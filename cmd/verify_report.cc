#include "verify_report.h"

#include <unistd.h>

#include <algorithm>
#include <set>
#include <tuple>

#include "problem_words.h"
#include "source.h"
#include "together.h"
#include "write_report.h"

namespace dcp::cmd {
namespace {

uint64_t count(const std::vector<Problem>& findings, Severity severity) {
  return static_cast<uint64_t>(std::ranges::count(findings, severity, &Problem::severity));
}

// From a manifest: the checkpoint may be whole and yet another one.
bool is_difference(const Problem& p) { return p.severity == Severity::kDamage && exit_of(p.id) == Exit::kAnswerNo; }

// The worst first, then by place: the same list whatever the order in which threads found them.
void sort_findings(std::vector<Problem>& findings) {
  for (Problem& p : findings) p = worded(std::move(p));
  for (Problem& p : findings)
    if (p.severity == Severity::kDamage && exit_of(p.id) == Exit::kMachine) p.severity = Severity::kError;
  const auto order = [](const Problem& p) {
    return std::tuple(-static_cast<int>(p.severity), std::string_view(p.place.path), p.place.offset.value_or(0),
                      std::string_view(p.place.tensor), id_name(p.id), to_line(p));
  };
  std::ranges::sort(findings, {}, order);
  const auto same = [](const Problem& a, const Problem& b) { return a.id == b.id && to_line(a) == to_line(b); };
  findings.erase(std::unique(findings.begin(), findings.end(), same), findings.end());
}

}  // namespace

void VerifyReport::describe(const Catalog& catalog) {
  kind = kind_name(catalog.kind);
  tensors = catalog.tensors.size();
  objects = catalog.blobs.size();
  chunks = catalog.chunk_total;
  files = catalog.files.size();
}

void VerifyReport::add(const Catalog& catalog, const Resolved& resolved, const VerifyPlan& plan, ExecuteReport executed) {
  for (Problem& p : executed.damage) {
    p.severity = Severity::kDamage;
    findings.push_back(std::move(p));
  }
  records = resolved.records_checked + executed.records_checked;
  records_without_crc = resolved.records_without_crc + executed.records_without_crc + plan.plan.unchecked_records;
  bytes = resolved.bytes_read + executed.bytes_read;
  data_records = plan.data_records;
  data_bytes = plan.data_bytes;
  left_out_records = plan.left_out_records;
  left_out_bytes = plan.left_out_bytes;
  if (records_without_crc == 0) return;
  Problem p = make_problem(ProblemId::crc_absent, {.path = catalog.path}, counted(records_without_crc, "record"));
  // torch writes archives with CRCs unless it is told not to; safetensors files have no place for one.
  const bool never_has_one = catalog.kind != CheckpointKind::kTorch && std::ranges::all_of(catalog.files, &DataFile::raw);
  p.severity = never_has_one ? Severity::kNote : Severity::kWarning;
  findings.push_back(std::move(p));
}

bool VerifyReport::is_damaged() const { return count(findings, Severity::kDamage) + count(findings, Severity::kError) > 0; }

int VerifyReport::exit_code() const {
  if (count(findings, Severity::kError) > 0) return static_cast<int>(Exit::kMachine);
  const bool no = count(findings, Severity::kDamage) > 0 || fails(fail_on, findings);
  return static_cast<int>(no ? Exit::kAnswerNo : Exit::kOk);
}

std::string VerifyReport::summary() const {
  const uint64_t unreadable = count(findings, Severity::kError), damage = count(findings, Severity::kDamage),
                 warnings = count(findings, Severity::kWarning);
  const auto differs = static_cast<uint64_t>(std::ranges::count_if(findings, is_difference));
  std::string text = escaped(source) + (unreadable + damage > differs ? ": damaged"
                                        : differs > 0                 ? ": not what the manifest holds"
                                                                      : ": no damage");
  std::string counts;
  const auto add = [&](uint64_t n, const char* one) {
    if (n > 0) counts += (counts.empty() ? " (" : ", ") + counted(n, one);
  };
  add(unreadable, "read error");
  add(damage, "finding");
  add(warnings, "warning");
  text += counts.empty() ? "" : counts + ")";
  text += ": " + counted(tensors, "tensor") + ", " + counted(objects, "object") + ", " + counted(chunks, "chunk") + " in " +
          counted(files, "file") + "\n";
  text += "  " + counted(records, "CRC") + " compared";
  if (records_without_crc > 0) text += ", " + counted(records_without_crc, "record") + " without one";
  text += "; " + human_bytes(bytes) + " read in " + seconds(seconds_ns) + ", " + rate(bytes, seconds_ns) + ", peak memory " +
          human_bytes(peak_rss_bytes()) + "\n";
  if (left_out_records > 0)
    text += "  left out by " + left_out_by + ": " + grouped(left_out_records) + " of " + counted(data_records, "data record") + ", " +
            human_bytes(left_out_bytes) + " of " + human_bytes(data_bytes) + "\n";
  if (!against.empty())
    text += "  " + counted(compared_keys, "key") + " and " + counted(compared_files, "file") + " compared with " + escaped(against) + "\n";
  if (!manifest.empty()) text += "  manifest: " + escaped(manifest) + "\n";
  return text;
}

void VerifyReport::print(const Context& context) const {
  const bool color = context.colored(STDOUT_FILENO);
  constexpr std::string_view kNames[] = {"note:", "warning:", "damage:", "error:"};
  std::string text;
  std::set<std::string_view> hints;  // each is said once
  for (const Problem& p : findings) {
    if (context.common.quiet && p.severity < Severity::kDamage) continue;
    const Style style = p.severity >= Severity::kDamage ? Style::kRed : p.severity == Severity::kWarning ? Style::kYellow : Style::kBold;
    text += styled(kNames[static_cast<size_t>(p.severity)], style, color) + " " + to_line(p) + "\n";
    if (!p.hint.empty() && hints.insert(p.hint).second) text += "  " + escaped(p.hint) + "\n";
  }
  context.out(text);
  if (!context.common.quiet) context.out(summary());
}

void VerifyReport::json(JsonWriter& out) const {
  out.begin_object().member("schema", "dcpctl.verify/1").member("exit", exit_).member("path", source);
  if (error_) {
    out.key("error");
    error_json(out, *error_);
  }
  if (!kind.empty()) out.member("kind", kind);
  out.key("summary")
      .begin_object()
      .member("tensors", tensors)
      .member("blobs", objects)
      .member("chunks", chunks)
      .member("files", files)
      .end_object();
  out.key("checked")
      .begin_object()
      .member("records", records)
      .member("records_without_crc", records_without_crc)
      .member("bytes_read", bytes)
      .end_object();
  out.key("left_out").begin_object().member("data_records", left_out_records).member("data_bytes", left_out_bytes);
  out.member("of_data_records", data_records).member("of_data_bytes", data_bytes).end_object();
  if (!against.empty())
    out.key("against").begin_object().member("path", against).member("keys", compared_keys).member("files", compared_files).end_object();
  if (!manifest.empty()) out.member("manifest", manifest);
  out.key("findings").begin_array();
  for (const Problem& p : findings) finding_json(out, p);
  out.end_array();
  unsafe_json(out, unsafe_);
  out.member("seconds", static_cast<double>(seconds_ns) / 1e9).member("peak_memory_bytes", peak_rss_bytes()).end_object();
}

std::string VerifyReport::document() const {
  std::string text;
  JsonWriter out([&](std::string_view s) { text += s; });
  json(out);
  out.finish();
  return text;
}

int VerifyReport::done(const Context& context) {
  unsafe_ = fold_unsafe(findings);
  sort_findings(findings);
  exit_ = exit_code();
  if (context.common.json) context.out(document());
  else print(context);
  return exit_;
}

int VerifyReport::around(Context& context, const std::function<int()>& body) {
  if (const auto fault = report_fault(context, source, manifest)) return report_error(context, *fault);
  try {
    body();
  } catch (const std::exception& error) {
    error_ = settle(context, error);
    exit_ = report_error(context, *error_);
  }
  if (context.speaks) save_report(context, document());
  return exit_;
}

}  // namespace dcp::cmd
