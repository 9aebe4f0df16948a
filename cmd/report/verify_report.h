// The output of `verify`: findings, a closing line, the JSON document, and the --report file in every outcome.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "app/verify.h"
#include "base/json.h"
#include "line/context.h"
#include "report/findings.h"
#include "request/fail_on.h"

namespace dcp::cmd {

class VerifyReport {
 public:
  std::string source, manifest, against;  // as on the command line
  FailOn fail_on;
  std::string left_out_by;  // "--quick"
  VerifyResult result;

  // Prints the answer, returns the exit code.
  int done(const Context& context);
  // For ranks other than 0, which print nothing: exits with rank 0's code.
  int follow(int exit) { return exit_ = exit; }
  // Runs `body`; renders its failure; writes --report whatever happened. Returns the exit code.
  int around(Context& context, const std::function<int()>& body);

 private:
  void json(JsonWriter& out) const;
  std::string document() const;
  void print(const Context& context) const;
  std::string verdict() const;
  std::string summary() const;
  int exit_code() const;

  int exit_ = 0;
  std::optional<Problem> error_;
};

}  // namespace dcp::cmd
