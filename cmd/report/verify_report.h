// The output of `verify`: findings, a closing line, the JSON document, and the --report file in every outcome.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "app/inspect.h"
#include "app/stats.h"
#include "app/verify.h"
#include "base/json.h"
#include "line/context.h"
#include "report/findings.h"

namespace dcp::cmd {

class VerifyReport {
 public:
  std::string source, manifest, against;  // as on the command line
  FailOn fail_on;
  std::string left_out_by;  // "--quick"
  std::string opened_with;  // options that the checkpoint takes to be opened, with a blank before each
  bool of_run = false;      // one line for each of the steps of a run
  VerifyResult result;
  std::optional<StatsResult> stats;
  bool all_stats = false;  // not only of tensors with NaN or inf

  // Prints the answer, returns the exit code.
  int done(const Context& context);
  // The page of --html, on the files and tensors that `found` has. After done().
  std::string html(InspectResult found) const;
  // For ranks other than 0, which print nothing: exits with rank 0's code.
  int follow(int exit) { return exit_ = exit; }
  // Runs `body`; renders its failure; writes --report whatever happened. Returns the exit code.
  int around(Context& context, const std::function<int()>& body);

 private:
  void json(JsonWriter& out) const;
  std::string document() const;
  void print(const Context& context) const;
  void print_line(const Context& context) const;
  void print_values(const Context& context) const;
  std::string_view word() const;
  std::string verdict() const;
  std::string summary() const;
  std::string whole_text() const;
  int exit_code() const;
  int exit_of_step() const;

  int exit_ = 0;
  std::optional<Problem> error_;
};

// Of what verify's documents say: "the structure of 2 of 3 steps is whole; 1 damaged; 1.2 GiB of data not read". Raises `exit` where none is whole.
struct TallyWords {
  const char* one;                    // of them: "step"
  const char* reads_data;             // what would read the data that was left out; "": nothing
  std::vector<size_t> parts_of = {};  // by document: the number of the step that it is a part of, ascending; none: each counts
};
std::string tally_text(const std::vector<std::string>& documents, TallyWords words, int& exit);

}  // namespace dcp::cmd
