#include "exec/worker.h"

#include <algorithm>
#include <functional>

#include "exec/overlaps.h"

namespace dcp {

Numbers row_major(Dims sizes) {
  Numbers strides{};
  int64_t stride = 1;
  for (size_t d = sizes.size(); d-- > 0;) {
    strides[d] = stride;
    stride *= sizes[d];
  }
  return strides;
}

Reach::Reach(const Plan& plan, const Catalog& catalog) {
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
    for (uint32_t r = p.first_region; r < p.first_region + p.region_count; ++r)
      extend(at + t.rank, {plan.numbers.data() + plan.regions[r].box_at + t.rank, t.rank});
  }
  at_.push_back(extents_.size());
}

MutableBytes Worker::Buffer::first(uint64_t bytes) {
  if (bytes > bytes_) {
    data_.reset();  // before the new one: the old bytes are not wanted
    data_ = std::make_unique_for_overwrite<std::byte[]>(bytes);
    bytes_ = bytes;
  }
  return {data_.get(), bytes};
}

MutableBytes Worker::read(uint32_t file, uint64_t offset, MutableBytes into) {
  const MutableBytes bytes = pieces_->read(file, offset, into);
  run_.progress.bytes_read.fetch_add(bytes.size(), std::memory_order_relaxed);
  return bytes;
}

void Worker::write(uint32_t file, uint64_t offset, Bytes bytes) {
  run_.sink.write(file, offset, bytes);
  run_.progress.bytes_written.fetch_add(bytes.size(), std::memory_order_relaxed);
}

void Worker::batch(const UnitBatch& batch) {
  pieces_ = batch.pieces.get();
  for (const UnitTask& task : batch.units) {
    sums_ = task.guest ? run_.guest_sums : &run_.sums;
    losses_ = task.guest ? run_.guest_losses : &run_.losses;
    unit(task.ordinal);
  }
}

void Worker::unit(uint64_t ordinal) {
  const Group& g = run_.plan.group_of(ordinal);
  const uint64_t k = ordinal - g.first_unit;
  gather_.on = false;  // a batch that failed may have left it on
  switch (g.kind) {
    case Group::Kind::kGrid:
      if (k == 0) write_empty(g.first);
      unit_box(run_.plan, run_.catalog, g, k, offsets_, sizes_);
      return box(g.first, {offsets_, sizes_});
    case Group::Kind::kBatch: return small_tensors(g);
    case Group::Kind::kStream:
      if (k == 0) write_empty(g.first);
      return stream(g.first, static_cast<uint32_t>(k));
    case Group::Kind::kCopy: return copy(g.first, k);
    case Group::Kind::kCheck: return check(g, k);
  }
}

void Worker::small_tensors(const Group& group) {
  // Only items are small and many enough to be worth it; and what the sink takes tensor by tensor survives the failure of another.
  const PlanTensor& first = run_.plan.tensors[group.first];
  const bool gathers = first.region_count > 0 && run_.plan.regions[first.first_region].is_item();
  if (gathers) begin_gather(group);
  for (uint32_t i = group.first; i < group.first + group.count; ++i) {
    const Dims dims = run_.catalog.dims(run_.catalog.tensors[run_.plan.tensors[i].id]);
    offsets_.assign(dims.size(), 0);
    write_empty(i);
    if (volume(dims) > 0) box(i, {offsets_, dims});
  }
  if (gathers) end_gather();
}

void Worker::box(uint32_t tensor, BoxView box) {
  const PlanTensor& p = run_.plan.tensors[tensor];
  const Tensor& t = run_.catalog.tensors[p.id];
  Assembly a{.box = box, .dtype = t.dtype, .strides = row_major(box.sizes), .bytes = {}};
  a.bytes = assembled_.first(volume(box.sizes) * bytes_of(t.dtype));
  a.wants_raw = p.region_count == 1 && sums_->wants_region(p.first_region) && run_.plan.regions[p.first_region].dtype == t.dtype;
  const auto offsets_of = [&](uint32_t c) { return run_.catalog.box(t, c).offsets; };
  visit_overlaps(0, t.chunk_count, run_.reach.chunks(tensor), box, offsets_of, [&](uint32_t c) {
    Numbers offsets, sizes;
    if (intersect(box, run_.catalog.box(t, c), offsets.data(), sizes.data()))
      place_chunk(a, t, c, {Dims(offsets.data(), t.rank), Dims(sizes.data(), t.rank)});
  });
  a.bytes = cast_elements(tensor, a.bytes, volume(box.sizes), t.dtype);
  scatter(tensor, a);
}

void Worker::copy(uint32_t index, uint64_t block) {
  const CopyRange& c = run_.plan.copies[index];
  if (c.packed != 0) return copy_deflated(index);
  const uint64_t at = block * kPassBytes;
  const uint64_t bytes = std::min(kPassBytes, c.bytes - at);
  if (c.from_decoded) copy_part(index, at, Bytes(run_.resolved.blobs.at(c.item).decoded).subspan(c.source_offset + at, bytes));
  else copy_part(index, at, read(run_.catalog.items[c.item].file, c.source_offset + at, source_.first(bytes)));
}

void Worker::copy_part(uint32_t index, uint64_t at, Bytes data) {
  const CopyRange& c = run_.plan.copies[index];
  const uint64_t bytes = data.size();
  if (sums_->wants_copy(index)) sums_->add_copy(index, crc32_raw(data), bytes, c.bytes - at - bytes);
  for (uint32_t n = c.first_check; n < c.first_check + c.check_count; ++n) {
    const CopyCheck& check = run_.plan.copy_checks[n];
    const uint64_t begin = std::max(at, check.at), end = std::min(at + bytes, check.at + check.bytes);
    if (begin < end) sums_->add_copy_check(n, crc32_raw(data.subspan(begin - at, end - begin)), end - begin, check.at + check.bytes - end);
  }
  write(c.file, c.file_offset + at, data);
}

void Worker::check(const Group& g, uint64_t block) {
  std::span<const ItemRecord> records = std::span(run_.plan.records).subspan(g.first, g.count);
  if (run_.catalog.item_of(records[0]).transforms != 0) return check_stream(g);
  const uint64_t end = records.back().offset + records.back().bytes;
  uint64_t at = records[0].offset + block * kPassBytes;
  const uint64_t stop = std::min(at + kPassBytes, end);
  const uint32_t file = run_.catalog.item_of(records[0]).file;
  while (at < stop) {
    const MutableBytes data = read(file, at, source_.first(std::min(kCheckBytes, stop - at)));
    add_parts(records, at, data);
    at += data.size();
  }
}

// The parts of records that lie in `data`, which begins at `at`. Records that end there or before are taken off the front.
void Worker::add_parts(std::span<const ItemRecord>& records, uint64_t at, Bytes data) {
  const uint64_t until = at + data.size();
  const auto after = [&](const ItemRecord& r) { return r.offset + r.bytes > at; };
  records = {std::ranges::partition_point(records, std::not_fn(after)), records.end()};
  for (const ItemRecord& r : records) {
    if (r.offset >= until) break;
    const uint64_t begin = std::max(at, r.offset), end = std::min(until, r.offset + r.bytes);
    const auto index = static_cast<uint32_t>(&r - run_.plan.records.data());
    sums_->add_record(index, crc32_raw(data.subspan(begin - at, end - begin)), end - begin, r.offset + r.bytes - end);
  }
}

}  // namespace dcp
