// Numbers of repeated measurements.
#pragma once

#include <cstdint>
#include <vector>

namespace dcp {

struct Spread {
  uint64_t min = 0, median = 0, max = 0;  // nanoseconds
  // The distance of the quartiles divided by the median.
  double quartiles = 0;
};

// There must be at least one value. The median of an even number of values is the lower of the middle two, so that it is a measured value.
Spread spread_of(std::vector<uint64_t> values);

inline double bytes_per_second(uint64_t bytes, uint64_t ns) {
  return ns == 0 ? 0 : static_cast<double>(bytes) * 1e9 / static_cast<double>(ns);
}

}  // namespace dcp
