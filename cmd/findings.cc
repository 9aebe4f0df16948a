#include "findings.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <tuple>

#include "catalog/unsafe.h"
#include "command.h"

namespace dcp::cmd {

bool FailOn::has(std::string_view name) const { return std::ranges::find(classes, name) != classes.end(); }

void add_fail_on(Command& c, FailOn& flags, const std::string& group) {
  c.option("--fail-on", flags.classes, "CLASS",
           "Exit with 1 for findings of these classes, too: unsafe (a pickle runs what torch.load(weights_only=True) refuses), damage, "
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

std::vector<UnsafePickle> fold_unsafe(std::vector<Problem>& findings) {
  const auto others =
      std::stable_partition(findings.begin(), findings.end(), [](const Problem& p) { return p.id != ProblemId::pickle_unsafe; });
  std::vector<Problem> unsafe(std::make_move_iterator(others), std::make_move_iterator(findings.end()));
  findings.erase(others, findings.end());
  std::ranges::sort(unsafe, {}, [](const Problem& p) {
    return std::tuple(std::string_view(p.place.path), p.place.offset.value_or(0), std::string_view(p.place.tensor));
  });
  std::vector<UnsafePickle> all;
  std::map<std::string, std::pair<size_t, uint64_t>> groups;  // by globals: where the first is in `findings`, and how many there are
  for (Problem& p : unsafe) {
    all.push_back({.key = p.place.tensor, .object = p.place.object, .path = p.place.path, .globals = p.got});
    const auto [group, is_first] = groups.try_emplace(p.got, findings.size(), 0);
    ++group->second.second;
    if (is_first) findings.push_back(std::move(p));
  }
  for (const auto& [globals, group] : groups)
    if (group.second > 1) findings[group.first].got += "; the same in " + std::to_string(group.second - 1) + " more";
  return all;
}

void unsafe_json(JsonWriter& json, const std::vector<UnsafePickle>& unsafe) {
  json.key("unsafe").begin_array();
  for (const UnsafePickle& u : unsafe) {
    json.begin_object();
    if (!u.key.empty()) json.member(u.object ? "object" : "tensor", u.key);
    json.member("path", u.path).key("globals").begin_array();
    for (size_t at = 0; at <= u.globals.size();) {
      const size_t end = std::min(u.globals.find(", ", at), u.globals.size());
      json.value(std::string_view(u.globals).substr(at, end - at));
      at = end + 2;
    }
    json.end_array().end_object();
  }
  json.end_array();
}

}  // namespace dcp::cmd
