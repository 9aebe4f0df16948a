#include "base/closest.h"

#include <algorithm>
#include <vector>

namespace dcp {

size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<size_t> before(b.size() + 1), last(b.size() + 1), row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    before.swap(last);
    last.swap(row);
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      row[j] = std::min({last[j] + 1, row[j - 1] + 1, last[j - 1] + (a[i - 1] != b[j - 1])});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) row[j] = std::min(row[j], before[j - 2] + 1);
    }
  }
  return row[b.size()];
}

Closest::Closest(std::string_view word) : word_(word), min_(std::max<size_t>(1, word.size() / 3) + 1) {}

void Closest::offer(std::string_view name) {
  std::string_view a = word_, b = name;
  // Keys of one model begin and end alike: common prefixes and suffixes need no edits.
  while (!a.empty() && !b.empty() && a.front() == b.front()) a.remove_prefix(1), b.remove_prefix(1);
  while (!a.empty() && !b.empty() && a.back() == b.back()) a.remove_suffix(1), b.remove_suffix(1);
  constexpr size_t kLongest = 64;  // a typo is not longer, and the time grows with its square
  const size_t longer = std::max(a.size(), b.size());
  if (longer - std::min(a.size(), b.size()) >= min_ || longer > kLongest) return;
  if (const size_t d = edit_distance(a, b); d < min_) min_ = d, best_ = name;
}

}  // namespace dcp
