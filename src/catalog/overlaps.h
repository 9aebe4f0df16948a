// Finds the boxes of a tensor that may cross a given box, without visiting all of them: a tensor over 1,024 ranks has 10^6 units.
#pragma once

#include <cstdint>

#include "catalog/box.h"

namespace dcp {

// Boxes [first, last), sorted by offsets (lexicographic).
template <class OffsetsOf>
struct SortedBoxes {
  uint32_t first, last;
  const int64_t* reach;  // by dim: the largest extent of any box
  const OffsetsOf& offsets_of;
};

// Calls visit(n) for every box that crosses `box`, in order, and for a few others. Logarithmic for grids and for splits of one dim.
template <class OffsetsOf, class Visit>
void visit_overlaps(const SortedBoxes<OffsetsOf>& boxes, BoxView box, const Visit& visit, size_t d = 0) {
  const auto& [begin, last, reach, offsets_of] = boxes;
  uint32_t first = begin;
  if (d == box.sizes.size()) {
    for (uint32_t n = first; n < last; ++n) visit(n);
    return;
  }
  const auto offset = [&](uint32_t n) -> int64_t { return offsets_of(n)[d]; };
  // All boxes here agree on the dims before d. Visits those from the first that reaches the box up to the first that starts after it.
  for (uint32_t high = last; first < high;) {
    const uint32_t mid = first + (high - first) / 2;
    if (offset(mid) + reach[d] <= box.offsets[d]) first = mid + 1;
    else high = mid;
  }
  while (first < last && offset(first) < box.offsets[d] + box.sizes[d]) {
    // The run of boxes with the same offset; usually one, or all.
    uint32_t end = first + 1;
    if (end < last && offset(end) == offset(first))
      for (uint32_t high = last; end < high;) {
        const uint32_t mid = end + (high - end) / 2;
        if (offset(mid) == offset(first)) end = mid + 1;
        else high = mid;
      }
    if (end - first == 1) visit(first);
    else visit_overlaps(SortedBoxes<OffsetsOf>{first, end, reach, offsets_of}, box, visit, d + 1);
    first = end;
  }
}

}  // namespace dcp
