// Expands a dim of products and sums: one part per choice of summands, and where its elements lie.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "maps/model_map.h"

namespace dcp::maps {

struct Step {
  Word word = 0;
  uint64_t size = 1, step = 1;  // in indices of the dim
};

struct Part {
  uint64_t offset = 0;
  std::vector<Step> steps;  // as the text names them
};

struct Extent {
  uint64_t size = 1;
  std::vector<Part> parts;  // in the order of the text, the last factor's summands changing fastest
};

// Sizes come from `size_of`. Throws map_too_many for more than `max` parts, and for a size beyond 62 bits.
Extent expand(const ModelMap& map, const Axis& axis, const std::function<uint64_t(Word)>& size_of, uint64_t max);

}  // namespace dcp::maps
