// The boxes of one rank of many: where a world is large, those of all ranks are too many to keep.
#pragma once

#include <vector>

#include "catalog/placements.h"

namespace dcp {

// As place_ranks, of one rank.
bool place_rank(const Mesh& mesh, const std::vector<Placement>& placements, Dims dims, uint32_t rank, RankBoxes& boxes);

}  // namespace dcp
