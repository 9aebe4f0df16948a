#include "catalog/sharding.h"

#include <set>

namespace dcp {
namespace {

struct Interval {
  int64_t offset;
  int64_t size;
  auto operator<=>(const Interval&) const = default;
};

bool even(const std::set<Interval>& cuts) {
  for (const Interval& i : cuts)
    if (i.size != cuts.begin()->size) return false;
  return true;
}

}  // namespace

std::string sharding_words(const Catalog& catalog, const Tensor& t) {
  if (t.chunk_count == 0) return "no chunks";
  if (t.chunk_count == 1) return std::ranges::equal(catalog.box(t, 0).sizes, catalog.dims(t)) ? "whole" : "partial";
  const std::string count = std::to_string(t.chunk_count);
  std::vector<std::set<Interval>> cuts(t.rank);  // of chunks with elements
  uint32_t live = 0;
  for (uint32_t c = 0; c < t.chunk_count; ++c) {
    const BoxView b = catalog.box(t, c);
    if (volume(b.sizes) == 0) continue;
    ++live;
    for (unsigned d = 0; d < t.rank; ++d) cuts[d].insert(cuts[d].end(), {b.offsets[d], b.sizes[d]});
  }
  uint64_t cells = 1;
  unsigned cut_dims = 0, cut_dim = 0;
  bool all_even = live == t.chunk_count;
  std::string shape;
  for (unsigned d = 0; d < t.rank; ++d) {
    const size_t n = std::max<size_t>(cuts[d].size(), 1);
    cells *= n;
    if (n > 1) ++cut_dims, cut_dim = d;
    all_even = all_even && even(cuts[d]);
    shape += (d ? "x" : "") + std::to_string(n);
  }
  // One chunk with elements among empty ones: the cut is on the dim where the empty ones start past the end.
  if (live <= 1) {
    for (uint32_t c = 0; c < t.chunk_count; ++c)
      for (unsigned d = 0; d < t.rank; ++d)
        if (volume(catalog.box(t, c).sizes) == 0 && catalog.box(t, c).offsets[d] > 0)
          return "Shard(" + std::to_string(d) + ") x" + count + " uneven";
    return "irregular x" + count;
  }
  if (cells != live) return "irregular x" + count;
  const std::string tail = all_even ? "" : " uneven";
  if (cut_dims == 1) return "Shard(" + std::to_string(cut_dim) + ") x" + count + tail;
  return "grid " + shape + tail;
}

uint32_t world_size_shown(const Catalog& catalog) {
  uint32_t max = 0;
  for (const Tensor& t : catalog.tensors) max = std::max(max, t.chunk_count);
  return max > 1 ? max : 0;
}

}  // namespace dcp
