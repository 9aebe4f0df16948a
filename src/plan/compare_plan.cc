#include "plan/compare_plan.h"

#include <algorithm>

#include "base/checked.h"
#include "plan/layout.h"

namespace dcp {
namespace {

// Calls fn(item, box) for chunks with elements.
template <class Fn>
void each_item(const SourceFacts& side, TensorId tensor, const Fn& fn) {
  const Tensor& t = side.catalog.tensors[tensor];
  for (uint32_t c = 0; c < t.chunk_count; ++c)
    if (const BoxView box = side.catalog.box(t, c); volume(box.sizes) > 0) fn(side.catalog.item_of(t, c), box);
}

void add_tensor(Plan& plan, const SourceFacts& side, TensorId tensor) {
  const Tensor& t = side.catalog.tensors[tensor];
  const uint64_t bytes = side.catalog.tensor_bytes(t);
  plan.tensors.push_back({.id = tensor, .first_region = narrow<uint32_t>(plan.regions.size())});
  plan.tensor_bytes += bytes;
  plan.largest_tensor = std::max(plan.largest_tensor, bytes);
}

// The region is never written. It gives a box of the other side, so that units suit both sides, and the dtype to which elements are
// converted.
void add_region(Plan& plan, const TensorPair& pair, uint64_t box_at, uint8_t rank) {
  plan.regions.push_back({.box_at = box_at, .tensor = narrow<uint32_t>(plan.tensors.size() - 1), .dtype = pair.as, .rank = rank});
  ++plan.tensors.back().region_count;
}

Plan plan_of(const SourceFacts& side, const SourceFacts& other, std::span<const TensorPair> pairs, bool leads, const UnitOptions& options) {
  Plan plan;
  plan.files.push_back({.name = {}, .archive = std::nullopt, .payloads = {}});
  for (const TensorPair& pair : pairs) {
    const Tensor& t = side.catalog.tensors[leads ? pair.lead : pair.follow];
    add_tensor(plan, side, leads ? pair.lead : pair.follow);
    each_item(other, leads ? pair.follow : pair.lead, [&](ItemId, BoxView box) {
      const uint64_t at = plan.numbers.size();
      plan.numbers.insert(plan.numbers.end(), box.offsets.begin(), box.offsets.end());
      plan.numbers.insert(plan.numbers.end(), box.sizes.begin(), box.sizes.end());
      add_region(plan, pair, at, t.rank);
    });
    if (plan.tensors.back().region_count == 0) add_region(plan, pair, add_whole_box(plan, side.catalog.dims(t)), t.rank);
  }
  cut_into_units(plan, side, options);
  return plan;
}

uint64_t largest_box(const Plan& plan, const SourceFacts& lead, const UnitOptions& options) {
  constexpr uint64_t kWidest = 16;  // bytes of an element; boxes are measured in elements of the narrowest
  uint64_t largest = options.unit_bytes;
  for (const Group& g : plan.groups) {
    uint64_t bytes = 0;
    if (g.kind == Group::Kind::kStream) bytes = kPassBytes;
    if (g.kind == Group::Kind::kScatter) bytes = static_cast<uint64_t>(plan.numbers[g.steps_at + 1]);
    if (g.kind == Group::Kind::kGrid) {
      const Tensor& t = lead.catalog.tensors[plan.tensors[g.first].id];
      bytes = volume({plan.numbers.data() + g.steps_at, t.rank});
      uint64_t element = bytes_of(t.dtype);
      for (uint32_t r = plan.tensors[g.first].first_region, n = 0; n < plan.tensors[g.first].region_count; ++n)
        element = std::max(element, bytes_of(plan.regions[r + n].dtype));
      bytes *= std::min(element, kWidest);
    }
    largest = std::max(largest, bytes);
  }
  return largest;
}

}  // namespace

unsigned leads_by(const SourceFacts& side, TensorId tensor) {
  if (side.resolved.views.any()) return 2;
  unsigned need = 0;
  each_item(side, tensor, [&](ItemId item, BoxView) {
    if (source_of(side, item).transforms != 0) need = 3;
    else if (side.resolved.items[item].strides_at != 0) need = std::max(need, 1u);
  });
  return need;
}

ComparePlan plan_compare(const SourceFacts& lead, const SourceFacts& follow, std::span<const TensorPair> pairs,
                         const UnitOptions& options) {
  ComparePlan plan{.lead = plan_of(lead, follow, pairs, true, options), .follow = plan_of(follow, lead, pairs, false, options)};
  // The following side is decoded in parts, some of them repeatedly, so it cannot be summed on the way.
  for (const TensorPair& pair : pairs)
    each_item(follow, pair.follow, [&](ItemId item, BoxView) {
      if (source_of(follow, item).transforms == 0) return;
      plan.decoded_bytes = std::max(plan.decoded_bytes, follow.resolved.items[item].record_bytes);
      if (plan.follow.checks[item] == CrcCheck::kFromUnits) plan.follow.checks[item] = CrcCheck::kUnchecked;
    });
  plan.box_bytes = largest_box(plan.lead, lead, options);
  return plan;
}

uint64_t follower_bytes(const ComparePlan& plan, const SourceFacts& follow) {
  // A span of a strided source may hold four times the bytes used (exec/pieces.cc).
  bool strided = follow.resolved.views.any(), converted = false;
  uint64_t growth = 1;
  for (const PlanTensor& p : plan.follow.tensors) {
    const DType dtype = follow.catalog.tensors[p.id].dtype, as = plan.follow.regions[p.first_region].dtype;
    converted = converted || dtype != as;
    each_item(follow, p.id, [&](ItemId item, BoxView) {
      const ItemInfo& info = follow.resolved.items[item];
      strided = strided || info.strides_at != 0;
      converted = converted || info.dtype != dtype;
      growth = std::max({growth, bytes_of(info.dtype) / bytes_of(as), bytes_of(dtype) / bytes_of(as)});
    });
  }
  const uint64_t box = plan.box_bytes * growth, span = std::max<uint64_t>(strided ? 4 * box : box, 256 * 1024);
  return box + span + (converted ? span + box : 0);
}

}  // namespace dcp
