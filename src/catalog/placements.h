// Placements on a device mesh, and the boxes that each rank gets, as torch's DTensor computes them.
//
// A mesh of shape (2, 4) numbers its 8 ranks row-major. There is one placement per mesh dim; each, from left to right, is applied to the
// part that the previous ones leave to the rank (torch/distributed/tensor/_utils.py, _compute_local_shape_and_global_offset, torch 2.15):
//   shard(d)    torch.chunk along tensor dim d: ceil(n / ranks) each, the last ones shorter or empty
//   strided(d)  _StridedShard: FSDP over a later shard(d) of the same dim. The result is as if the later ones had split first: the tensor
//               is split into as many pieces as they make, each piece is split by this mesh dim, and this rank's parts are joined
//   replicate   all ranks along this mesh dim hold the same
// An empty shard lies at the end: its offset is the size of the dim.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "catalog/box.h"
#include "catalog/catalog.h"

namespace dcp {

struct Placement {
  enum class Kind : uint8_t { kShard, kStrided, kReplicate };
  Kind kind = Kind::kReplicate;
  int64_t dim = 0;  // negative: from the last
  bool operator==(const Placement&) const = default;
};

struct Mesh {
  std::vector<uint32_t> sizes;
  std::vector<std::string> names;  // one per size, distinct; or none
  uint64_t ranks() const;
};
inline constexpr uint64_t kMaxRanks = 65536;

// Parses "2x4" with the names "dp,tp", or with "". Throws usage.
Mesh parse_mesh(std::string_view sizes, std::string_view names);

// "shard(0)", "strided(-1)", "replicate", or as torch spells them, "Shard(dim=0)", "Replicate()", separated by commas: one per mesh dim; or
// by name, "tp:shard(0)", where unnamed dims replicate. Throws usage.
std::vector<Placement> parse_placements(std::string_view text, const Mesh& mesh);

// `placements` for a tensor of `rank` dims: placements on dims that it does not have become replicate.
std::vector<Placement> fitting(std::vector<Placement> placements, size_t rank);

// The boxes of all ranks, one after the other: `rank` offsets, then `rank` sizes, for each. A rank may have several if strided() leaves it
// non-adjacent rows, so `rank_of` has the rank of each box.
struct RankBoxes {
  std::vector<int64_t> numbers;
  std::vector<uint32_t> rank_of;
  BoxView box(size_t n, size_t rank) const { return {{numbers.data() + n * 2 * rank, rank}, {numbers.data() + n * 2 * rank + rank, rank}}; }
  void clear();
};

// Appends the boxes of all ranks. Returns false and appends nothing if a placement names a dim that the tensor does not have.
bool place_ranks(const Mesh& mesh, const std::vector<Placement>& placements, Dims dims, RankBoxes& boxes);

// How a tensor is sharded, in words, from its chunk boxes alone: "whole", "Shard(0) x8", "Shard(0) x8 uneven", "grid 2x4", "irregular x7".
// Empty chunks count as shards: FSDP2 leaves them if a parameter has fewer rows than there are ranks.

std::string sharding_words(const Catalog& catalog, const Tensor& tensor);

// The number of ranks that saved it, as recorded, or as the chunks suggest: the maximum number of chunks of any tensor; 0 if no tensor is sharded.
uint32_t world_size_shown(const Catalog& catalog);

// The boxes of one rank of many: where a world is large, those of all ranks are too many to keep.

// As place_ranks, of one rank.
bool place_rank(const Mesh& mesh, const std::vector<Placement>& placements, Dims dims, uint32_t rank, RankBoxes& boxes);

// What a rank holds of a tensor: its boxes [first, last), joined along each dim in ascending order.
struct HeldBoxes {
  std::vector<int64_t> sizes;
  std::vector<int64_t> offsets;  // of each box in it, `dims` numbers a box
};
HeldBoxes join_boxes(const RankBoxes& boxes, size_t first, size_t last, size_t dims);

}  // namespace dcp
