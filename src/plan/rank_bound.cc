#include "plan/rank_bound.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <unordered_map>

namespace dcp {
namespace {

// The N in `rank_N` or `dp_rank_N`.
std::optional<uint64_t> rank_in(std::string_view component) {
  const size_t digits = component.find_last_not_of("0123456789") + 1;
  const std::string_view name = component.substr(0, digits), number = component.substr(digits);
  const bool is_rank = name == "rank_" || name.ends_with("_rank_");
  uint64_t rank = 0;
  const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), rank);
  return is_rank && !number.empty() && error == std::errc{} ? std::optional(rank) : std::nullopt;
}

}  // namespace

std::vector<RankBound> rank_bound_entries(const Selection& selection) {
  std::vector<RankBound> found;
  std::unordered_map<std::string, size_t> numbers;  // by stem
  for (const Entry& e : selection.entries) {
    if (!e.is_blob()) continue;
    const std::string_view key = e.key;
    for (size_t begin = 0; begin < key.size();) {
      const size_t end = std::min(key.find('.', begin), key.size());
      const std::string_view component = key.substr(begin, end - begin);
      if (const std::optional<uint64_t> rank = rank_in(component)) {
        const std::string stem(key.substr(0, begin + component.find_last_not_of("0123456789") + 1));
        const auto [group, fresh] = numbers.try_emplace(stem, found.size());
        if (fresh) found.push_back({.stem = stem, .exclude = (begin > 0 ? std::string(key.substr(0, begin)) : stem) + "*", .ranks = {}});
        found[group->second].ranks.push_back(*rank);
        break;
      }
      begin = end + 1;
    }
  }
  for (RankBound& group : found) {
    std::ranges::sort(group.ranks);
    group.ranks.erase(std::unique(group.ranks.begin(), group.ranks.end()),
                      group.ranks.end());  // clang 14 cannot compile std::ranges' version
  }
  return found;
}

}  // namespace dcp
