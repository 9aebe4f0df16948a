// The boxes of one rank of many: where a world is large, those of all ranks are too many to keep.
#pragma once

#include <vector>

#include "catalog/placements.h"

namespace dcp {

// As place_ranks, of one rank.
bool place_rank(const Mesh& mesh, const std::vector<Placement>& placements, Dims dims, uint32_t rank, RankBoxes& boxes);

// What a rank holds of a tensor: its boxes [first, last), joined along each dim in ascending order.
struct HeldBoxes {
  std::vector<int64_t> sizes;
  std::vector<int64_t> offsets;  // of each box in it, `dims` numbers a box
};
HeldBoxes join_boxes(const RankBoxes& boxes, size_t first, size_t last, size_t dims);

}  // namespace dcp
