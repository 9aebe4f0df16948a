// Finds views of a record that together see each element at most once: then its sum can be computed as they are read, and only the gaps
// need an extra read.
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "catalog/views.h"

namespace dcp {

// The positions of a view in its record: the first, plus its axes, slowest first. Only size and stride of the axes are used.
struct Positions {
  uint64_t first = 0;
  std::vector<ViewAxis> axes;
  uint64_t count() const;
  uint64_t end() const;  // after the last one
};

// Positions of axes given in any order, with axes merged where possible. `once`: whether no position occurs twice, as far as nesting axes
// can show it.
Positions positions_of(uint64_t first, std::span<const ViewAxis> axes, bool& once);

struct RecordCover {
  std::vector<uint32_t> views;
  std::vector<std::pair<uint64_t, uint64_t>> gaps;  // half-open ranges of positions that no view has
};

// Some of `views` that together have each position in [0, total) at most once, and all of them except some gaps. None, unless that is easy
// to see; interleaved views must have the same strides.
RecordCover cover_of(std::span<const Positions> views, uint64_t total);

}  // namespace dcp
