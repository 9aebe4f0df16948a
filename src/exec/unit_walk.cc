#include "exec/unit_walk.h"

namespace dcp {

MaxExtents::MaxExtents(const Plan& plan, const Catalog& catalog) : plan_(plan), catalog_(catalog) {
  at_.reserve(plan.tensors.size() + 1);
  for (const PlanTensor& p : plan.tensors) {
    const Tensor& t = catalog.tensors[p.id];
    const uint64_t at = extents_.size();
    at_.push_back(at);
    extents_.resize(at + 2 * t.rank, 0);
    const auto extend = [&](uint64_t from, Dims sizes) {
      for (size_t d = 0; d < sizes.size(); ++d) extents_[from + d] = std::max(extents_[from + d], sizes[d]);
    };
    for (uint32_t c = 0; c < t.chunk_count; ++c) extend(at, catalog.box(t, c).sizes);
    for (uint32_t r = p.first_region; r < p.first_region + p.region_count; ++r) extend(at + t.rank, plan.box(plan.regions[r]).sizes);
  }
  at_.push_back(extents_.size());
}

}  // namespace dcp
