#include "staging/statistics.h"

#include <algorithm>

namespace dcp {

Spread spread_of(std::vector<uint64_t> values) {
  std::ranges::sort(values);
  const auto at = [&](size_t quarter) { return values[(values.size() - 1) * quarter / 4]; };
  Spread s{.min = values.front(), .median = at(2), .max = values.back()};
  if (s.median > 0) s.quartiles = static_cast<double>(at(3) - at(1)) / static_cast<double>(s.median);
  return s;
}

}  // namespace dcp
