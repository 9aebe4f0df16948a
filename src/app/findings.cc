#include "app/findings.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <tuple>

namespace dcp {

void part_errors(std::vector<Problem>& findings) {
  for (Problem& p : findings)
    if (p.severity == Severity::kDamage && class_of(p.id) == ProblemClass::kMachine) p.severity = Severity::kError;
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
  // By globals: where the first is in `findings`, and how many there are.
  std::map<std::vector<std::string>, std::pair<size_t, uint64_t>> groups;
  for (Problem& p : unsafe) {
    all.push_back({.key = p.place.tensor, .object = p.place.object, .path = p.place.path, .globals = p.names});
    const auto [group, is_first] = groups.try_emplace(p.names, findings.size(), 0);
    ++group->second.second;
    if (is_first) findings.push_back(std::move(p));
  }
  for (const auto& [globals, group] : groups)
    if (group.second > 1) findings[group.first].got += "; the same in " + std::to_string(group.second - 1) + " more";
  return all;
}

}  // namespace dcp
