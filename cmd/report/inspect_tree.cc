// The keys of a checkpoint as a tree of their paths' components.
#include <algorithm>
#include <unordered_map>
#include <utility>

#include "base/checked.h"
#include "base/text.h"
#include "report/inspect_text.h"

namespace dcp::cmd {
std::vector<Entry> sorted_entries(const Selection& selection) {
  std::vector<Entry> sorted = selection.entries;
  std::ranges::stable_sort(sorted, [](const Entry& a, const Entry& b) { return natural_less(a.key, b.key); });
  return sorted;
}

std::vector<TreeRow> tree_of(const Selection& selection) {
  std::unordered_map<PathStep, uint32_t, PathStepHash> numbers;  // by first appearance; 0 is the root
  std::vector<std::pair<std::vector<uint32_t>, Entry>> sorted;
  for (const Entry& e : sorted_entries(selection)) {
    std::vector<uint32_t> trail{0};
    for (const PathPart& p : selection.path(e)) {
      const auto next = narrow<uint32_t>(numbers.size() + 1);
      trail.push_back(numbers.try_emplace({trail.back(), p}, next).first->second);
    }
    sorted.emplace_back(std::move(trail), e);
  }
  std::ranges::stable_sort(sorted, {}, &decltype(sorted)::value_type::first);
  std::vector<TreeRow> rows;
  std::vector<uint32_t> open;
  for (const auto& [trail, e] : sorted) {
    const std::span<const PathPart> path = selection.path(e);
    size_t level = 0;
    while (level < open.size() && level + 1 < path.size() && open[level] == trail[level + 1]) ++level;
    open.resize(level);
    for (; level + 1 < path.size(); ++level) {
      rows.push_back({level, part_text(path[level]), std::nullopt});
      open.push_back(trail[level + 1]);
    }
    rows.push_back({level, part_text(path.back()), e});
  }
  return rows;
}

}  // namespace dcp::cmd
