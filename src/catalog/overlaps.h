// Which of a tensor's boxes may cross a box, without looking at all of them: a tensor over 1,024 ranks has 10^6 units.
#pragma once

#include <cstdint>

#include "catalog/box.h"

namespace dcp {

// Boxes [first, last), sorted by offsets (lexicographic); `reach[d]`: the largest extent of any on dim d; offsets_of(n): the offsets of
// one. Calls visit(n) for every box that crosses `box`, in order, and for few others. Logarithmic for grids and for splits of one dim.
template <class OffsetsOf, class Visit>
void visit_overlaps(uint32_t first, uint32_t last, const int64_t* reach, BoxView box, const OffsetsOf& offsets_of, const Visit& visit,
                    size_t d = 0) {
  if (d == box.sizes.size()) {
    for (uint32_t n = first; n < last; ++n) visit(n);
    return;
  }
  const auto offset = [&](uint32_t n) -> int64_t { return offsets_of(n)[d]; };
  // All boxes here agree on the dims before d: those from the first that reaches the box, up to the first that starts behind it.
  for (uint32_t high = last; first < high;) {
    const uint32_t mid = first + (high - first) / 2;
    if (offset(mid) + reach[d] <= box.offsets[d]) first = mid + 1;
    else high = mid;
  }
  while (first < last && offset(first) < box.offsets[d] + box.sizes[d]) {
    // Those with the same offset; mostly one, or all.
    uint32_t end = first + 1;
    if (end < last && offset(end) == offset(first))
      for (uint32_t high = last; end < high;) {
        const uint32_t mid = end + (high - end) / 2;
        if (offset(mid) == offset(first)) end = mid + 1;
        else high = mid;
      }
    if (end - first == 1) visit(first);
    else visit_overlaps(first, end, reach, box, offsets_of, visit, d + 1);
    first = end;
  }
}

}  // namespace dcp
