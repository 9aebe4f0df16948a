// Which views of a record see each of its elements exactly once together: then its sum can be made on their way, and needs no pass.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "catalog/views.h"

namespace dcp {

// The positions of a view in its record: first, and what its axes add; slowest first. Of the axes only size and stride count.
struct Positions {
  uint64_t first = 0;
  std::vector<ViewAxis> axes;
  uint64_t count() const;
  uint64_t end() const;  // after the last one
};

// Those of axes in any order, as few as say the same. `once`: whether no position comes twice, as far as axes that nest can show it.
Positions positions_of(uint64_t first, std::span<const ViewAxis> axes, bool& once);

// Some of `views` that have together each position from 0 to `total` exactly once; none if there are no such, or if it cannot be seen easily:
// of views that lie in each other's gaps it can where they have the same strides.
std::vector<uint32_t> exact_cover(std::span<const Positions> views, uint64_t total);

}  // namespace dcp
