// Checks that the chunks of a tensor tile it, with every element in exactly one chunk, without comparing all pairs.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "catalog/catalog.h"

namespace dcp {

enum class CoverFault : uint8_t {
  kHole,        // `offsets`, `sizes`: a box that no chunk covers (not necessarily the whole hole)
  kOverlap,     // a box that chunks `a` and `b` (numbers within the tensor) both cover
  kOutside,     // chunk `a`, which is that box, reaches outside the tensor
  kTooComplex,  // cut too irregularly: the check gave up
};

struct CoverProblem {
  CoverFault fault = CoverFault::kHole;
  std::vector<int64_t> offsets;
  std::vector<int64_t> sizes;
  uint32_t a = 0;
  uint32_t b = 0;
};

// nullopt: the chunks with elements tile the tensor exactly. Linear for grids and nested splits; O(n log n) for other tilings.
std::optional<CoverProblem> check_cover(const Catalog& catalog, const Tensor& tensor);

// "[0:4, 8:16]": a box in Python's slice notation.
std::string slice_text(Dims offsets, Dims sizes);

}  // namespace dcp
