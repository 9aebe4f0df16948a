#include "maps/quantized.h"

#include <string>
#include <unordered_set>

#include "base/problem.h"
#include "select/quantized.h"

namespace dcp::maps {

void refuse_quantized(std::span<const std::string_view> keys) {
  const std::unordered_set<std::string_view> all(keys.begin(), keys.end());
  const HasKey has_key = [&](std::string_view key) { return all.contains(key); };
  for (const std::string_view key : keys)
    if (const auto pair = pair_of_companion(key, has_key))
      fail(ProblemId::map_quantized, {.tensor = pair->numbers}, "scales in " + shortened(pair->companion));
}

}  // namespace dcp::maps
