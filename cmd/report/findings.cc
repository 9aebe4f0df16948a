#include "report/findings.h"

#include <algorithm>

#include "base/text.h"
#include "items/unsafe.h"
#include "line/command.h"

namespace dcp::cmd {

void sort_naturally(std::vector<Problem>& findings) {
  const auto is_other = [](const Problem& a, const Problem& b) { return a.id != b.id || a.severity != b.severity; };
  for (auto begin = findings.begin(); begin != findings.end();) {
    const auto end = std::adjacent_find(begin, findings.end(), is_other);
    const auto next = end == findings.end() ? end : end + 1;
    std::stable_sort(begin, next, [](const Problem& a, const Problem& b) { return natural_less(a.place.path, b.place.path); });
    begin = next;
  }
}

std::string_view severity_word(Severity severity) {
  constexpr std::string_view kWords[] = {"note:", "warning:", "damage:", "error:"};
  return kWords[static_cast<size_t>(severity)];
}

Style style_of(Severity severity) {
  return severity >= Severity::kDamage ? Style::kRed : severity == Severity::kWarning ? Style::kYellow : Style::kBold;
}

void unsafe_json(JsonWriter& json, const std::vector<UnsafePickle>& unsafe) {
  json.key("unsafe").begin_array();
  for (const UnsafePickle& u : unsafe) {
    json.begin_object();
    if (!u.key.empty()) json.member(u.object ? "object" : "tensor", u.key);
    json.member("path", u.path).member("globals", u.globals).end_object();
  }
  json.end_array();
}

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
