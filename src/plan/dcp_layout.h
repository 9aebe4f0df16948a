// The layout of a DCP folder: `__R_0.distcp` for each rank R, items back to back, and `.metadata` last.
//
// Rank 0's file begins with the byte items, as they were; then, in each file, tensor items in the metadata's order. A box that several
// ranks would hold is written once, by the one with the fewest bytes so far. `.metadata` does not depend on the tensors' bytes: its size is
// known in advance, and it is written from the plan and never held in memory.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "catalog/placements.h"
#include "plan/layout.h"
#include "plan/placement_rules.h"
#include "plan/plan.h"
#include "plan/torch_target.h"
#include "select/select.h"

namespace dcp {

// Which boxes each rank gets. The first of these that applies to a tensor wins:
//   rules    the first whose glob matches; a dim that the tensor does not have is not split
//   like     the boxes that a tensor of this name has in another checkpoint, on the ranks whose files hold them there
//   default a tensor that the source has in several chunks is split on dim 0 over all ranks, as FSDP2 does; others then
//            stay whole; if no tensor of the source is in several chunks, all are split. Tensors without dims or elements stay whole.
struct DcpLayoutOptions {
  Limits limits;
  UnitOptions units;
  uint32_t world_size = 1;
  Mesh mesh;                         // for rules; its ranks are world_size
  std::vector<PlacementRule> rules;  // placements on `mesh`
  const Catalog* like = nullptr;
  TorchTarget torch;
  bool source_boxes = false;  // every tensor keeps its boxes, on the ranks whose files hold them; the other rules are ignored
};

// Throws placement_no_dim, like_not_whole, keys_collide, dtype_needs_torch. Before torch 2.4 byte items must have been resolved with their pickles.
Plan plan_dcp(const SourceFacts& source, const Selection& selection, const DcpLayoutOptions& options);

// Whether the tensor is anything but one chunk that is all of it. Empty chunks count: FSDP2 leaves one if a parameter has fewer rows than
// there are ranks.
bool is_sharded(const SourceFacts& source, const Tensor& t);

// The number of ranks that a checkpoint's file names suggest: the highest plus one; 0: none.
uint32_t ranks_shown(const Catalog& catalog);

// Keys that belong to a rank of the trainer and not to the model: torchtitan's `dataloader.dp_rank_3` holds the data position of one
// data-parallel rank. A new layout does not change them, but a trainer asks for as many as it has ranks.

// Objects whose key has a component that is `rank_N` or ends in `_rank_N`, grouped by the text before the number, in metadata order.
std::vector<RankBound> rank_bound_entries(const Selection& selection);

// The release of torch that an output is written for, and why it is later than the default.

struct TorchNeeded {
  unsigned version = 0;
  std::vector<KeyNote> raised_by;
};
// Throws dtype_needs_torch.
TorchNeeded torch_for(const Catalog& catalog, const Selection& selection, const TorchTarget& target);

}  // namespace dcp
