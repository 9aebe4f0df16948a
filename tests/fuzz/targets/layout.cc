// A --layout file: who has what on the mesh that it describes.
#include "app/layout_request.h"
#include "fuzz.h"
#include "unit/base/fake_io.h"

namespace dcp::fuzz {

void run(Bytes input) {
  constexpr uint64_t kMaxToPlace = 4096;
  test::FakeIo io;
  io.put("layout.json", as_text(input));
  const RequestedLayout requested = requested_layout({.file = "layout.json"}, io, kLimits.memory_bytes);
  const DcpLayoutOptions& o = requested.options;
  must(o.world_size >= 1 && o.world_size <= kMaxRanks, "a number of ranks");
  must(o.mesh.sizes.empty() || o.mesh.ranks() == o.world_size, "as many as the mesh has");
  if (o.mesh.ranks() > kMaxToPlace) return;
  for (const std::vector<int64_t>& dims : {std::vector<int64_t>{}, {5}, {7, 3}, {2, 0, 4}}) {
    for (const PlacementRule& rule : o.rules) {
      must(rule.placements.size() == o.mesh.sizes.size(), "a placement a mesh dim");
      RankBoxes boxes;
      if (!place_ranks(o.mesh, rule.placements, dims, boxes)) continue;
      uint64_t elements = 0;
      for (size_t n = 0; n < boxes.rank_of.size(); ++n) {
        const BoxView box = boxes.box(n, dims.size());
        must(boxes.rank_of[n] < o.world_size, "a rank of the mesh");
        for (size_t d = 0; d < dims.size(); ++d)
          must(box.offsets[d] >= 0 && box.sizes[d] >= 0 && box.offsets[d] + box.sizes[d] <= dims[d], "a box lies in its tensor");
        elements += volume(box.sizes);
      }
      uint64_t copies = 1;
      for (size_t m = 0; m < rule.placements.size(); ++m)
        if (rule.placements[m].kind == Placement::Kind::kReplicate) copies *= o.mesh.sizes[m];
      must(elements == copies * volume(dims), "each element as often as it is replicated");
    }
  }
}

}  // namespace dcp::fuzz
