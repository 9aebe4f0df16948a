// Findings of `inspect` and `verify`: their order and words, which of them make the exit code 1, and the unsafe pickles, of which a checkpoint may
// have thousands.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/problem.h"
#include "items/unsafe.h"
#include "line/context.h"
#include "line/lines.h"

namespace dcp::cmd {

struct Command;

// Findings of one kind that stand together, in natural order of their files: __0_2 before __0_10.
void sort_naturally(std::vector<Problem>& findings);

// "damage:", and its style.
std::string_view severity_word(Severity severity);
Style style_of(Severity severity);

// The member "unsafe": each of them.
void unsafe_json(JsonWriter& json, const std::vector<UnsafePickle>& unsafe);

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
