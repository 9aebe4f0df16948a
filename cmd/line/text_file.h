// Small files that options write in addition to the answer: --report, --html.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "line/context.h"

namespace dcp::cmd {

// Such an option's file.
struct TextFile {
  std::string_view option;  // "--report"
  std::string path;
  std::string_view begins;  // how such a file begins: only files that begin so are replaced
};
// Why it cannot be written there: it would replace something else, or lie inside the source or the output. Checked before any work.
std::optional<Problem> text_file_fault(Io& io, const TextFile& file, const std::string& source, const std::string& output);
std::optional<Problem> report_fault(const Context& context, const std::string& source, const std::string& output);

// Writes the JSON document to the file of --report, if that was given.
void save_report(Context& context, const std::string& document);

struct ReportedPaths {
  std::string source{}, output{};  // as on the command line; "": none
};
// Runs `body`, which prints its answer and returns the JSON document for --report, written in every outcome. Returns the exit code.
int run_reported(Context& context, const ReportedPaths& paths, const std::function<std::string()>& body);

// Reports a command line that could not be parsed, if --report can be made out in it.
void save_usage_report(Context& context, const std::vector<std::string>& words, const Problem& problem);

}  // namespace dcp::cmd
