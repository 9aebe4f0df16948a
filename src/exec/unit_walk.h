// What a unit is: its steps, and the order in which they read and write. The worker that does the unit (exec/worker), the rank that reads
// for it (ranks/exchange) and the dealing of units to the ranks whose blocks they write (ranks/blocks) share this definition: only the
// order identifies the bytes in a message between ranks.
#pragma once

#include <algorithm>
#include <array>
#include <vector>

#include "catalog/box.h"
#include "plan/plan.h"

namespace dcp {

// Maximum extents of a tensor's chunks and regions on each dim, for finding those that a box crosses. The plan and the catalog must outlive
// it.
class MaxExtents {
 public:
  MaxExtents(const Plan& plan, const Catalog& catalog);
  const Plan& plan() const { return plan_; }
  const Catalog& catalog() const { return catalog_; }
  const int64_t* chunks(uint32_t plan_tensor) const { return extents_.data() + at_[plan_tensor]; }
  const int64_t* regions(uint32_t plan_tensor) const {
    return extents_.data() + at_[plan_tensor] + (at_[plan_tensor + 1] - at_[plan_tensor]) / 2;
  }

 private:
  const Plan& plan_;
  const Catalog& catalog_;
  std::vector<uint64_t> at_;
  std::vector<int64_t> extents_;
};

inline MaxExtents::MaxExtents(const Plan& plan, const Catalog& catalog) : plan_(plan), catalog_(catalog) {
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

// Calls the steps of a unit:
//   begin_batch(group), end_batch()       around the tensors of a kBatch
//   empty_items(tensor)                   the items of its regions without elements, which no box crosses
//   box(tensor, box)                      elements of the global tensor, from each_chunk() to each_region()
//   stream(tensor, chunk)                 all elements of a transformed chunk, which is not empty
//   scatter_record(group)                 all elements of the chunks that are views of one transformed record
//   copy(range, at, bytes)                bytes [at, at + bytes) of plan.copies[range]
//   copy_deflated(range) all of a range that is decoded from a deflated record
//   check(group, file, at, bytes)         a stretch of a file that records of the group lie in
//   check_decoded(group)                  the records of a transformed item
// `tensor` is an index of plan.tensors.
template <class Steps>
void walk_unit(const Plan& plan, const Catalog& catalog, uint64_t ordinal, Steps&& steps) {
  const Group& g = plan.group_of(ordinal);
  const uint64_t k = ordinal - g.first_unit;
  switch (g.kind) {
    case Group::Kind::kGrid: {
      if (k == 0) steps.empty_items(g.first);
      return steps.box(g.first, UnitBox(plan, catalog, g, k).view());
    }
    case Group::Kind::kBatch: {
      constexpr Numbers kOrigin{};
      steps.begin_batch(g);
      for (uint32_t i = g.first; i < g.first + g.count; ++i) {
        steps.empty_items(i);
        const Dims dims = catalog.dims(catalog.tensors[plan.tensors[i].id]);
        if (volume(dims) > 0) steps.box(i, BoxView{{kOrigin.data(), dims.size()}, dims});
      }
      return steps.end_batch();
    }
    case Group::Kind::kStream: {
      if (k == 0) steps.empty_items(g.first);
      const auto chunk = static_cast<uint32_t>(k);
      if (volume(catalog.box(catalog.tensors[plan.tensors[g.first].id], chunk).sizes) > 0) steps.stream(g.first, chunk);
      return;
    }
    case Group::Kind::kScatter: {
      for (uint32_t n = g.first; n < g.first + g.count; ++n)
        if (plan.scattered[n].chunk == 0) steps.empty_items(plan.scattered[n].tensor);
      return steps.scatter_record(g);
    }
    case Group::Kind::kCopy: {
      if (plan.copies[g.first].packed != 0) return steps.copy_deflated(g.first);
      const uint64_t at = k * kPassBytes;
      return steps.copy(g.first, at, std::min(kPassBytes, plan.copies[g.first].bytes - at));
    }
    case Group::Kind::kBoxes: {
      for (uint32_t n = g.first; n < g.first + g.count; ++n) {
        const PlanBox& b = plan.boxes[n];
        steps.box(b.tensor, plan.box(b, catalog.tensors[plan.tensors[b.tensor].id].rank));
      }
      return;
    }
    case Group::Kind::kCheck: {
      const ItemRecord &first = plan.records[g.first], &last = plan.records[g.first + g.count - 1];
      const Item item = catalog.item_of(first);
      if (item.transforms != 0) return steps.check_decoded(g);
      const uint64_t begin = first.offset + k * kPassBytes, end = std::min(begin + kPassBytes, last.offset + last.bytes);
      for (uint64_t at = begin; at < end; at += plan.check_bytes) steps.check(g, item.file, at, std::min(plan.check_bytes, end - at));
      return;
    }
  }
}

// The parts of a tensor's chunks that lie in a box, in the order in which they are read: fn(chunk, part).
template <class Fn>
void each_chunk(const MaxExtents& extents, uint32_t tensor, BoxView box, const Fn& fn) {
  const Catalog& catalog = extents.catalog();
  const Tensor& t = catalog.tensors[extents.plan().tensors[tensor].id];
  const auto offsets_of = [&](uint32_t c) { return catalog.box(t, c).offsets; };
  visit_overlaps(SortedBoxes{0, t.chunk_count, extents.chunks(tensor), offsets_of}, box, [&](uint32_t c) {
    Numbers offsets, sizes;
    if (intersect(box, catalog.box(t, c), offsets.data(), sizes.data())) fn(c, BoxView{{offsets.data(), t.rank}, {sizes.data(), t.rank}});
  });
}

// The parts of its regions that lie in a box, in the order in which they are written: fn(region, part).
template <class Fn>
void each_region(const MaxExtents& extents, uint32_t tensor, BoxView box, const Fn& fn) {
  const Plan& plan = extents.plan();
  const PlanTensor& p = plan.tensors[tensor];
  const auto offsets_of = [&](uint32_t r) { return plan.box(plan.regions[r]).offsets; };
  visit_overlaps(SortedBoxes{p.first_region, p.first_region + p.region_count, extents.regions(tensor), offsets_of}, box, [&](uint32_t r) {
    Numbers offsets, sizes;
    const BoxView whole = plan.box(plan.regions[r]);
    if (intersect(box, whole, offsets.data(), sizes.data()))
      fn(r, BoxView{{offsets.data(), whole.sizes.size()}, {sizes.data(), whole.sizes.size()}});
  });
}

}  // namespace dcp
