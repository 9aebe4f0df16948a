// Writes the box of a unit to the output regions that it crosses. An item that fits into the unit is made in memory and written at once, in
// a batch together with its neighbours in the file. The payload of a larger one is written piece by piece, and its frame by the worker that
// adds the last byte to its sum.
#include <algorithm>
#include <utility>

#include "base/checked.h"
#include "exec/worker.h"
#include "kernels/kernels.h"

namespace dcp {
namespace {

uint64_t written_bytes(const Plan& plan, const Region& region) { return region.head + plan.payload_bytes(region) + region.tail; }

}  // namespace

void Worker::scatter(uint32_t tensor, const Assembly& a) {
  if (taker_ != nullptr) return taker_->take(tensor, a.box, a.bytes);
  if (a.in_place) return static_cast<void>(run_.progress.bytes_written.fetch_add(a.bytes.size(), std::memory_order_relaxed));
  each_region(run_.extents, tensor, a.box, [&](uint32_t r, BoxView part) {
    const Region& region = run_.plan.regions[r];
    const bool whole = std::ranges::equal(part.sizes, run_.plan.box(region).sizes);
    if (whole && (gather_.on || region.is_item())) write_whole(a, r);
    else write_part(a, r, part);
  });
}

void Worker::write_whole(const Assembly& a, uint32_t index) {
  const Region& region = run_.plan.regions[index];
  const BoxView box = run_.plan.box(region);
  const uint64_t element = bytes_of(region.dtype), bytes = volume(box.sizes) * element;
  const uint64_t total = region.head + bytes + region.tail;
  const MutableBytes out = gather_.on ? gather_.bytes.subspan(gather_.at[index - gather_.first_region], total) : item_.first(total);
  const MutableBytes payload = out.subspan(region.head, bytes);
  uint64_t from = 0;
  for (size_t d = 0; d < box.sizes.size(); ++d) from += static_cast<uint64_t>((box.offsets[d] - a.box.offsets[d]) * a.strides[d]);
  const Numbers dense = row_major(box.sizes);
  copy_strided(payload.data(), {dense.data(), box.sizes.size()}, a.bytes.data() + from * element, {a.strides.data(), box.sizes.size()},
               box.sizes, static_cast<unsigned>(element));
  if (sums_->wants_region(index)) {
    const bool known = a.raw_bytes == bytes && a.raw_bytes == a.bytes.size();
    const uint32_t raw = known ? a.raw : crc32_raw(payload);
    sums_->add_region(index, raw, bytes, 0);
    if (region.is_item()) {
      const TensorItemFrame& frame = frames_.of(region.dtype, box.sizes);
      std::ranges::copy(frame.head(), out.begin());
      frame.write_tail(crc32_finish(raw, bytes), out.data() + region.head + bytes);
      if (run_.shared) run_.shared->framed[index] = true;
    }
  }
  if (!gather_.on) write(region.file, region.file_offset - region.head, out);
}

void Worker::write_part(const Assembly& a, uint32_t index, BoxView part) {
  const Region& region = run_.plan.regions[index];
  const size_t rank = part.sizes.size();
  const BoxView whole = run_.plan.box(region);
  const Dims origin = whole.offsets, extent = whole.sizes;
  const Numbers strides = row_major(extent);
  // The longest runs of the region: all later dims whole, one dim ranged. In the box they are one run if it holds no more on those dims.
  const uint64_t element = bytes_of(region.dtype);
  uint64_t run = 1;
  size_t outer = rank;
  bool together = true;
  while (outer > 0) {
    const size_t d = --outer;
    if (part.sizes[d] > 1 && a.strides[d] != static_cast<int64_t>(run)) together = false;
    run *= static_cast<uint64_t>(part.sizes[d]);
    if (part.sizes[d] != extent[d]) break;
  }
  uint64_t to = 0, at = 0;
  Numbers index_of{}, sizes{};
  for (size_t d = 0; d < rank; ++d) {
    to += static_cast<uint64_t>((part.offsets[d] - origin[d]) * strides[d]);
    at += static_cast<uint64_t>((part.offsets[d] - a.box.offsets[d]) * a.strides[d]);
    sizes[d] = part.sizes[d];
  }
  const uint64_t bytes = run * element;
  const uint64_t region_bytes = volume(extent) * element;
  do {
    uint64_t to_run = to, at_run = at;
    for (size_t d = 0; d < outer; ++d) {
      to_run += static_cast<uint64_t>(index_of[d] * strides[d]);
      at_run += static_cast<uint64_t>(index_of[d] * a.strides[d]);
    }
    MutableBytes out = a.bytes.subspan(at_run * element);
    if (!together) {
      const MutableBytes packed = packed_.first(bytes);
      const std::span<const int64_t> inner(sizes.data() + outer, rank - outer);
      const Numbers dense = row_major(inner);
      copy_strided(packed.data(), {dense.data(), inner.size()}, out.data(), {a.strides.data() + outer, inner.size()}, inner,
                   static_cast<unsigned>(element));
      out = packed;
    }
    out = out.first(bytes);
    write(region.file, region.file_offset + to_run * element, out);
    if (!sums_->wants_region(index)) continue;
    const bool known = a.raw_bytes == bytes && a.raw_bytes == a.bytes.size();
    const uint64_t added = sums_->add_region(index, known ? a.raw : crc32_raw(out), bytes, region_bytes - to_run * element - bytes);
    if (added == region_bytes && region.is_item() && !run_.shared) write_item_frame(index);
  } while (next_index(index_of, sizes, outer));
}

// Writes all of an item except its payload, whose sum is complete.
void Worker::write_item_frame(uint32_t index) {
  const Region& region = run_.plan.regions[index];
  const uint64_t bytes = run_.plan.payload_bytes(region);
  const TensorItemFrame& frame = frames_.of(region.dtype, run_.plan.box(region).sizes);
  const MutableBytes tail = item_.first(region.tail);
  frame.write_tail(sums_->region_crc(index, bytes), tail.data());
  write(region.file, region.file_offset - region.head, frame.head());
  write(region.file, region.file_offset + bytes, tail);
}

void Worker::empty_items(uint32_t tensor) {
  const PlanTensor& p = run_.plan.tensors[tensor];
  for (uint32_t r = p.first_region; r < p.first_region + p.region_count; ++r) {
    const Region& region = run_.plan.regions[r];
    const Dims sizes = run_.plan.box(region).sizes;
    if (!region.is_item() || volume(sizes) > 0) continue;
    const TensorItemFrame& frame = frames_.of(region.dtype, sizes);
    const uint64_t total = region.head + uint64_t{region.tail};
    const MutableBytes out = gather_.on ? gather_.bytes.subspan(gather_.at[r - gather_.first_region], total) : item_.first(total);
    std::ranges::copy(frame.head(), out.begin());
    frame.write_tail(0, out.data() + region.head);
    if (run_.shared) run_.shared->framed[r] = true;
    if (!gather_.on) write(region.file, region.file_offset - region.head, out);
  }
}

// All regions of the batch's tensors lie inside the batch. They are sorted by their places in the files, so that neighbours there become
// neighbours here.
void Worker::begin_batch(const Group& group) {
  // Only items are small and many enough to be worth gathering. Anything else is written tensor by tensor, so that the failure of one does
  // not affect the others.
  const PlanTensor& first = run_.plan.tensors[group.first];
  if (first.region_count == 0 || !run_.plan.regions[first.first_region].is_item()) return;
  const PlanTensor& last = run_.plan.tensors[group.first + group.count - 1];
  gather_.first_region = first.first_region;
  const uint32_t count = last.first_region + last.region_count - gather_.first_region;
  std::vector<uint32_t>& order = gather_.order;
  order.resize(count);
  for (uint32_t i = 0; i < count; ++i) order[i] = i;
  const auto place = [&](uint32_t i) {
    const Region& r = run_.plan.regions[gather_.first_region + i];
    return std::pair(r.file, r.file_offset);
  };
  std::ranges::sort(order, {}, place);
  gather_.at.resize(count);
  gather_.runs.clear();
  uint64_t at = 0;
  for (const uint32_t i : order) {
    const Region& r = run_.plan.regions[gather_.first_region + i];
    const uint64_t bytes = written_bytes(run_.plan, r);
    gather_.at[i] = at;
    const uint64_t begin = r.file_offset - r.head;
    const bool follows =
        !gather_.runs.empty() && gather_.runs.back().file == r.file && gather_.runs.back().file_offset + gather_.runs.back().bytes == begin;
    if (follows) gather_.runs.back().bytes += bytes;
    else if (bytes > 0) gather_.runs.push_back({.file = r.file, .file_offset = begin, .at = at, .bytes = bytes});
    at += bytes;
  }
  gather_.bytes = gathered_.first(at);
  gather_.on = true;
}

void Worker::end_batch() {
  if (!std::exchange(gather_.on, false)) return;
  for (const Gather::Run& run : gather_.runs) write(run.file, run.file_offset, gather_.bytes.subspan(run.at, run.bytes));
}

}  // namespace dcp
