#include "maps/quantized.h"

#include <string>
#include <unordered_set>

#include "base/problem.h"

namespace dcp::maps {
namespace {

// How the name of scales becomes that of the numbers.
struct Ending {
  std::string_view scales, numbers;
};
constexpr Ending kEndings[] = {
    {"_scale_inv", ""},             // blocks of float8: weight_scale_inv beside weight
    {"_scales", "_blocks"},         // MXFP4
    {"_scale", "_packed"},          // compressed-tensors, int4
    {"weight_scale", "weight"},     // compressed-tensors, float8 and int8
    {".scales", ".qweight"},        // GPTQ, AWQ
    {".weight.absmax", ".weight"},  // bitsandbytes, 4 bits
    {".SCB", ".weight"},            // bitsandbytes, 8 bits
};

}  // namespace

void refuse_quantized(std::span<const std::string_view> keys) {
  const std::unordered_set<std::string_view> all(keys.begin(), keys.end());
  for (const std::string_view key : keys) {
    for (const Ending& e : kEndings) {
      if (!key.ends_with(e.scales)) continue;
      const std::string numbers = std::string(key.substr(0, key.size() - e.scales.size())) + std::string(e.numbers);
      if (all.contains(numbers)) fail(ProblemId::map_quantized, {.tensor = numbers}, "scales in " + shortened(key));
    }
  }
}

}  // namespace dcp::maps
