// Boxes of a tensor: offsets and sizes, one number a dim, in elements of the global tensor.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>

namespace dcp {

using Dims = std::span<const int64_t>;

struct BoxView {
  Dims offsets;
  Dims sizes;
};

// Product of sizes; 1 for 0 dims. The caller knows that it fits: a tensor's element count is checked when the catalog is built and a
// box inside its tensor has no more.
inline uint64_t volume(Dims sizes) {
  uint64_t v = 1;
  for (int64_t s : sizes) v *= static_cast<uint64_t>(s);
  return v;
}

// Writes the intersection; false if it is empty (0-dim boxes always intersect).
inline bool intersect(BoxView a, BoxView b, int64_t* offsets, int64_t* sizes) {
  for (size_t d = 0; d < a.sizes.size(); ++d) {
    const int64_t lo = std::max(a.offsets[d], b.offsets[d]);
    const int64_t hi = std::min(a.offsets[d] + a.sizes[d], b.offsets[d] + b.sizes[d]);
    if (hi <= lo) return false;
    offsets[d] = lo;
    sizes[d] = hi - lo;
  }
  return true;
}

}  // namespace dcp
