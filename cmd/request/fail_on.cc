#include "request/fail_on.h"

#include <algorithm>

#include "items/unsafe.h"
#include "line/command.h"

namespace dcp::cmd {

bool FailOn::has(std::string_view name) const { return std::ranges::find(classes, name) != classes.end(); }

void add_fail_on(Command& c, FailOn& flags, const std::string& group) {
  c.option("--fail-on", flags.classes, "CLASS",
           "Also exit with 1 for findings of these classes: unsafe (a pickle runs what torch.load(weights_only=True) refuses), damage, "
           "warnings")
      .some_of({"unsafe", "damage", "warnings"})
      .in(group);
}

bool fails(const FailOn& flags, const std::vector<Problem>& findings) {
  return std::ranges::any_of(findings, [&](const Problem& p) {
    if (flags.unsafe() && (tells_unsafe(p.id) || p.severity >= Severity::kDamage)) return true;
    return (flags.warnings() && p.severity >= Severity::kWarning) || (flags.damage() && p.severity >= Severity::kDamage);
  });
}

}  // namespace dcp::cmd
