#include "line/text_file.h"

#include <algorithm>
#include <filesystem>

#include "app/output.h"
#include "base/file_names.h"
#include "base/json.h"
#include "line/exit_status.h"
#include "line/lines.h"
#include "line/problem_words.h"

namespace dcp::cmd {

std::optional<Problem> text_file_fault(Io& io, const TextFile& file, const std::string& source, const std::string& output) {
  if (file.path.empty() || file.path == "-" || file.path.ends_with('/'))
    return make_problem(ProblemId::usage, {}, std::string(file.option) + " '" + file.path + "'", "the name of a file");
  std::error_code ignored;
  const std::filesystem::path path = std::filesystem::weakly_canonical(std::filesystem::absolute(file.path), ignored);
  for (const std::string& taken : {source, output}) {
    if (taken.empty()) continue;
    const auto place = std::filesystem::weakly_canonical(std::filesystem::absolute(without_trailing_slashes(taken)), ignored);
    if (std::mismatch(place.begin(), place.end(), path.begin(), path.end()).first == place.end())
      return make_problem(ProblemId::usage, {.path = file.path}, std::string(file.option) + " inside '" + taken + "'",
                          "a file outside the checkpoint and the output");
  }
  const std::string parent = path.parent_path();
  const auto folder = io.facts(parent);
  if (!folder || folder->kind != FileKind::kDirectory)
    return make_problem(ProblemId::io_create, {.path = file.path}, "no folder '" + parent + "'");
  const auto facts = io.facts(file.path);
  if (!facts || (facts->kind == FileKind::kRegular && !facts->link && facts->bytes == 0)) return std::nullopt;
  Problem exists = make_problem(ProblemId::output_exists, {.path = file.path},
                                facts->link                         ? "a link"
                                : facts->kind == FileKind::kRegular ? "a file of another kind"
                                                                    : "no file");
  exists.hint = "give another name";
  if (facts->link || facts->kind != FileKind::kRegular) return exists;
  const OpenFile there(io, io.open_read(file.path));
  std::vector<std::byte> begin(std::min<uint64_t>(facts->bytes, file.begins.size()));
  read_exact(io, there.get(), 0, begin);
  return as_text(begin) == file.begins ? std::nullopt : std::optional(std::move(exists));
}

std::optional<Problem> report_fault(const Context& context, const std::string& source, const std::string& output) {
  if (context.common.report.empty() || context.report_fd >= 0) return std::nullopt;
  try {
    return text_file_fault(context.io, {"--report", context.common.report, R"({"schema":"dcpctl.)"}, source, output);
  } catch (const Error& e) {
    return e.problem();
  }
}

void save_report(Context& context, const std::string& document) {
  if (context.report_fd >= 0) write_fd(context.report_fd, document);
  else if (!context.common.report.empty()) save_small_file(context, context.common.report, document, {.sync = false});
}

// The report of a command that failed before it had anything else to report.
static std::string failure_document(const Context& context, const std::string& source, const Problem& problem) {
  return json_document([&](JsonWriter& json) {
    json.member("schema", schema_of(context)).member("exit", static_cast<int>(exit_of(problem)));
    if (!source.empty()) json.member("path", source);
    error_json(json.key("error"), problem);
  });
}

void save_usage_report(Context& context, const std::vector<std::string>& words, const Problem& problem) {
  constexpr std::string_view kOption = "--report";
  for (size_t i = 0; i < words.size(); ++i) {
    if (words[i] == kOption && i + 1 < words.size()) context.common.report = words[i + 1];
    else if (words[i].starts_with(std::string(kOption) + "=")) context.common.report = words[i].substr(kOption.size() + 1);
  }
  if (context.common.report.empty()) return;
  if (report_fault(context, "", "")) return;
  save_report(context, failure_document(context, "", problem));
}

int run_reported(Context& context, const ReportedPaths& paths, const std::function<std::string()>& body) {
  if (const auto fault = report_fault(context, paths.source, paths.output)) return report_error(context, *fault);
  std::string document;
  int exit = 0;
  try {
    document = body();
  } catch (const std::exception& error) {
    exit = report_error(context, error);
    document = failure_document(context, paths.source, context.worded(problem_of(error)));
  }
  save_report(context, document);
  return exit;
}

}  // namespace dcp::cmd
