// The layout of a DCP folder: `__R_0.distcp` for each rank R, items back to back, and `.metadata` last.
//
// Rank 0's file begins with the byte items, as they were; then, in each file, tensor items in the metadata's order. A box that several
// ranks would hold is written once, by the one with the fewest bytes so far. `.metadata` does not depend on the tensors' bytes: its size is
// known in advance, and it is written from the plan, not held.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "catalog/placements.h"
#include "plan/layout.h"
#include "plan/torch_needed.h"

namespace dcp {

struct PlacementRule {
  std::string glob;                   // of final names; * crosses dots; or a dict of them
  std::vector<Placement> placements;  // one per mesh dim
};

// Which boxes each rank gets. The first of these that applies to a tensor wins:
//   rules    the first whose glob matches; a dim that the tensor does not have is not split
//   like     the boxes that a tensor of this name has in another checkpoint, on the ranks whose files hold them there
//   default  a tensor that the source has in several chunks is split on dim 0 over all ranks, as FSDP2 does; whole ones beside such tensors
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

// The number of ranks that a checkpoint's file names suggest: the highest plus one; 0: none.
uint32_t ranks_shown(const Catalog& catalog);

}  // namespace dcp
