// Keys that belong to a rank of the trainer and not to the model: torchtitan's `dataloader.dp_rank_3` holds the data position of one
// data-parallel rank. A new layout does not change them, but a trainer asks for as many as it has ranks.
#pragma once

#include <vector>

#include "plan/plan.h"
#include "select/select.h"

namespace dcp {

// Objects whose key has a component that is `rank_N` or ends in `_rank_N`, grouped by the text before the number, in metadata order.
std::vector<RankBound> rank_bound_entries(const Selection& selection);

}  // namespace dcp
