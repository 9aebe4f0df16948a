// Boxes of a tensor: offsets and sizes, one number a dim, in elements of the global tensor.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace dcp {

using Dims = std::span<const int64_t>;

// Most dims a tensor can have: torch's own limit, and Limits::tensor_rank.
inline constexpr size_t kMaxRank = 64;
using Numbers = std::array<int64_t, kMaxRank>;  // one a dim

struct BoxView {
  Dims offsets;
  Dims sizes;
};

// Product of sizes; 1 for 0 dims. It cannot overflow: a tensor's element count is checked when the catalog is built, and a box inside its
// tensor has no more.
inline uint64_t volume(Dims sizes) {
  uint64_t v = 1;
  for (int64_t s : sizes) v *= static_cast<uint64_t>(s);
  return v;
}

// Strides, in elements, of a dense box with the last dim fastest.
inline Numbers row_major(Dims sizes) {
  Numbers strides{};
  int64_t stride = 1;
  for (size_t d = sizes.size(); d-- > 0; stride *= sizes[d]) strides[d] = stride;
  return strides;
}

// Writes the intersection. Returns false if it is empty (0-dim boxes always intersect).
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
