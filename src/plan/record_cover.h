// Which views of a record see its elements once: then its sum can be made on their way, and what they leave out is all that is read besides.
#pragma once

#include <cstdint>
#include <span>
#include <utility>
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

struct RecordCover {
  std::vector<uint32_t> views;
  std::vector<std::pair<uint64_t, uint64_t>> gaps;  // positions that none of them has, from first to before last
};

// Some of `views` that have together no position from 0 to `total` twice, and but for some gaps all of them; none if that cannot be seen
// easily: of views that lie in each other's gaps it can where they have the same strides.
RecordCover cover_of(std::span<const Positions> views, uint64_t total);

}  // namespace dcp
