// --fail-on: which findings of `inspect` and `verify` make the exit code 1.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/problem.h"

namespace dcp::cmd {

struct Command;

// --fail-on CLASS,...
struct FailOn {
  std::vector<std::string> classes;
  bool unsafe() const { return has("unsafe"); }
  bool warnings() const { return has("warnings"); }
  bool nan() const { return has("nan"); }
  bool damage() const { return has("damage"); }

 private:
  bool has(std::string_view name) const;
};
void add_fail_on(Command& command, FailOn& flags, const std::string& group);
// Whether one of the findings is of a requested class. What cannot be read counts as unsafe.
bool fails(const FailOn& flags, const std::vector<Problem>& findings);

}  // namespace dcp::cmd
