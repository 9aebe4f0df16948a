#include "exec/worker.h"

#include <algorithm>
#include <functional>
#include <utility>

#include "base/checked.h"
#include "kernels/kernels.h"

namespace dcp {
namespace {

uint64_t written_bytes(const Plan& plan, const Region& region) { return region.head + plan.payload_bytes(region) + region.tail; }

}  // namespace

MutableBytes Worker::Buffer::first(uint64_t bytes) {
  if (bytes > bytes_) {
    data_.reset();  // freed before the new one is allocated: the old bytes are not needed
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
    sums_ = task.counted_elsewhere ? &run_.shared->uncounted_sums : &run_.sums;
    losses_ = task.counted_elsewhere ? &run_.shared->uncounted_losses : &run_.losses;
    gather_.on = false;  // a unit that failed may have left it on
    walk_unit(run_.plan, catalog_, task.ordinal, *this);
  }
}

Worker::Assembly Worker::assembly(uint32_t tensor, BoxView box) {
  const TensorId id = run_.plan.tensors[tensor].id;
  const DType dtype = catalog_.tensors[id].dtype;
  Assembly a{.box = box, .dtype = dtype, .strides = row_major(box.sizes), .bytes = memory_of(tensor, box)};
  a.in_place = !a.bytes.empty();
  if (!a.in_place) a.bytes = assembled_.first(volume(box.sizes) * bytes_of(dtype));
  if (resolved_.views.any() && resolved_.views.padded[id]) std::ranges::fill(a.bytes, std::byte{});
  return a;
}

// The box's bytes in the output, if they are in memory there, and nothing else needs them.
MutableBytes Worker::memory_of(uint32_t tensor, BoxView box) const {
  if (taker_ != nullptr || gather_.on) return {};
  const Region* only = nullptr;
  uint64_t regions = 0, first = 0, last = 0;
  each_region(run_.extents, tensor, box, [&](uint32_t r, BoxView part) {
    only = &run_.plan.regions[r];
    ++regions;
    const BoxView whole = run_.plan.box(*only);
    const Numbers strides = row_major(whole.sizes);
    first = 0, last = 0;
    for (size_t d = 0; d < part.sizes.size(); ++d) {
      first += static_cast<uint64_t>((part.offsets[d] - whole.offsets[d]) * strides[d]);
      last += static_cast<uint64_t>((part.sizes[d] - 1) * strides[d]);
    }
    if (volume(part.sizes) != volume(box.sizes)) regions = 2;  // it has a part of the box alone
  });
  if (regions != 1 || only->is_item() || sums_->wants_region(static_cast<uint32_t>(only - run_.plan.regions.data()))) return {};
  const uint64_t element = bytes_of(only->dtype), elements = volume(box.sizes);
  const bool one_run = last + 1 == elements && only->dtype == catalog_.tensors[run_.plan.tensors[tensor].id].dtype;
  return one_run ? run_.sink.memory(only->file, only->file_offset + first * element, elements * element) : MutableBytes{};
}

Worker::Assembly Worker::assemble(uint32_t tensor, BoxView box) {
  const PlanTensor& p = run_.plan.tensors[tensor];
  const Tensor& t = catalog_.tensors[p.id];
  Assembly a = assembly(tensor, box);
  a.wants_raw = p.region_count == 1 && sums_->wants_region(p.first_region) && run_.plan.regions[p.first_region].dtype == t.dtype;
  const ChunkReads reads(run_.plan, run_.source, t);
  each_chunk(run_.extents, tensor, box,
             [&](uint32_t chunk, BoxView part) { reads.each(chunk, part, [&](const ChunkSpans& spans) { place_piece(a, spans); }); });
  if (a.in_place) return a;
  a.bytes = cast_elements(tensor, a.bytes, volume(box.sizes), t.dtype);
  return a;
}

void Worker::box(uint32_t tensor, BoxView box) { scatter(tensor, assemble(tensor, box)); }

Bytes Worker::read_box(PieceSource& pieces, DecodedRecords& decoded, uint32_t tensor, BoxView box) {
  pieces_ = &pieces;
  decoded_ = &decoded;
  sums_ = &run_.sums;
  losses_ = &run_.losses;
  const Assembly a = assemble(tensor, box);
  decoded_ = nullptr;
  return a.bytes;
}

void Worker::copy(uint32_t range, uint64_t at, uint64_t bytes) {
  const CopyRange& c = run_.plan.copies[range];
  if (c.from_decoded) copy_part(range, at, Bytes(resolved_.blob(c.item).decoded).subspan(c.source_offset + at, bytes));
  else copy_part(range, at, read(catalog_.items[c.item].file, c.source_offset + at, source_.first(bytes)));
}

void Worker::copy_part(uint32_t range, uint64_t at, Bytes data) {
  const CopyRange& c = run_.plan.copies[range];
  const uint64_t bytes = data.size();
  if (sums_->wants_copy(range)) sums_->add_copy(range, crc32_raw(data), bytes, c.bytes - at - bytes);
  for (uint32_t n = c.first_check; n < c.first_check + c.check_count; ++n) {
    const CopyCheck& check = run_.plan.copy_checks[n];
    const uint64_t begin = std::max(at, check.at), end = std::min(at + bytes, check.at + check.bytes);
    if (begin < end) sums_->add_copy_check(n, crc32_raw(data.subspan(begin - at, end - begin)), end - begin, check.at + check.bytes - end);
  }
  write(c.file, c.file_offset + at, data);
}

void Worker::check(const Group& g, uint32_t file, uint64_t at, uint64_t bytes) {
  std::span<const ItemRecord> records = std::span(run_.plan.records).subspan(g.first, g.count);
  add_parts(records, at, read(file, at, source_.first(bytes)));
}

// The parts of records that lie in `data`, which begins at `at`. Records that end before `data` does are dropped from the front of
// `records`.
void Worker::add_parts(std::span<const ItemRecord>& records, uint64_t at, Bytes data) {
  const uint64_t until = at + data.size();
  const auto after = [&](const ItemRecord& r) { return r.offset + r.bytes > at; };
  records = {std::ranges::partition_point(records, std::not_fn(after)), records.end()};
  for (const ItemRecord& r : records) {
    if (r.offset >= until) break;
    const uint64_t begin = std::max(at, r.offset), end = std::min(until, r.offset + r.bytes);
    const uint32_t raw = crc32_raw(data.subspan(begin - at, end - begin));
    if (const ItemInfo& info = resolved_.items[r.item]; run_.plan.is_rest(r))
      sums_->add_item(r.item, raw, end - begin, info.record + info.record_bytes - end);
    else sums_->add_record(static_cast<uint32_t>(&r - run_.plan.records.data()), raw, end - begin, r.offset + r.bytes - end);
  }
}

// Reads source chunks into the box of a unit, in as few reads as the chunks' layout allows; each byte of a dense record is read exactly
// once.

void Worker::place_piece(Assembly& a, const ChunkSpans& spans) {
  Piece p{.spans = spans, .inner = spans.rank - spans.outer, .dense_to = spans.extent == spans.count};
  const auto stride_of = [&](size_t axis) { return a.strides[spans.dims[axis]] * spans.steps[axis]; };
  uint64_t to = 0, run = 1;
  for (size_t d = 0; d < a.box.offsets.size(); ++d) to += static_cast<uint64_t>((spans.to[d] - a.box.offsets[d]) * a.strides[d]);
  for (size_t i = p.inner; i-- > 0;) {
    const size_t axis = spans.order[spans.outer + i];
    p.sizes[i] = spans.sizes[axis];
    p.from_strides[i] = spans.strides[axis];
    p.to_strides[i] = stride_of(axis);
    // With strides by which elements overlap, the extent of a span can equal its count, so both sides are checked.
    if (p.sizes[i] > 1 && (p.to_strides[i] != static_cast<int64_t>(run) || p.from_strides[i] != static_cast<int64_t>(run)))
      p.dense_to = false;
    run *= static_cast<uint64_t>(p.sizes[i]);
  }
  spans.each([&](uint64_t element, const Numbers& index) {
    uint64_t to_at = to;
    for (size_t i = 0; i < spans.outer; ++i) to_at += static_cast<uint64_t>(index[i] * stride_of(spans.order[i]));
    place_span(a, p, element, to_at);
  });
}

MutableBytes Worker::finish_elements(const ItemInfo& info, MutableBytes bytes, uint64_t elements, DType to) {
  if (info.swap) swap_bytes(bytes.data(), bytes.size() / swap_unit(info.dtype), swap_unit(info.dtype));
  if (info.conj) conjugate(bytes.data(), elements, info.dtype);
  if (info.neg) negate(bytes.data(), elements, info.dtype);
  if (info.dtype == to) return bytes;
  const MutableBytes converted = converted_.first(elements * bytes_of(to));
  convert(converted.data(), to, bytes.data(), info.dtype, elements);
  return converted;
}

MutableBytes Worker::read_span(ItemId item, uint64_t at, MutableBytes into) {
  if (decoded_ == nullptr || source_of(run_.source, item).transforms == 0)
    return read(catalog_.items[item].file, resolved_.items[item].record + at, into);
  decoded_->read(item, at, into);
  return into;
}

void Worker::place_span(Assembly& a, const Piece& p, uint64_t element, uint64_t to) {
  const ItemInfo& info = *p.spans.info;
  const ItemId item = p.spans.item;
  const uint64_t bytes = p.spans.bytes();
  const uint64_t at = element * bytes_of(info.dtype);
  const uint64_t to_at = to * bytes_of(a.dtype);
  const bool plain = info.dtype == a.dtype && !info.swap && !info.conj && !info.neg;
  const bool direct = plain && p.dense_to;
  const MutableBytes span = read_span(item, at, direct ? a.bytes.subspan(to_at, bytes) : source_.first(bytes));
  const bool summed = run_.plan.checks[item] == CrcCheck::kFromUnits;
  if (summed || (direct && a.wants_raw)) {
    const uint32_t raw = crc32_raw(span);
    if (summed) sums_->add_item(item, raw, bytes, info.record_bytes - at - bytes);
    if (direct && a.wants_raw) {
      a.raw ^= crc32_shift(raw, a.bytes.size() - to_at - bytes);
      a.raw_bytes += bytes;
    }
  }
  if (direct) {
    const MutableBytes place = a.bytes.subspan(to_at, bytes);
    if (bytes == a.bytes.size() && !a.in_place) a.bytes = span;  // nothing to assemble
    else if (span.data() != place.data()) std::ranges::copy(span, place.begin());
    return;
  }
  const MutableBytes elements = finish_elements(info, span, p.spans.extent, a.dtype);
  copy_strided(a.bytes.data() + to_at, {p.to_strides.data(), p.inner}, elements.data(), {p.from_strides.data(), p.inner},
               {p.sizes.data(), p.inner}, static_cast<unsigned>(bytes_of(a.dtype)));
}

MutableBytes Worker::cast_elements(uint32_t tensor, MutableBytes bytes, uint64_t elements, DType from) {
  const PlanTensor& p = run_.plan.tensors[tensor];
  const DType to = p.region_count == 0 ? from : run_.plan.regions[p.first_region].dtype;
  if (to == from) return bytes;
  const MutableBytes out = cast_.first(elements * bytes_of(to));
  losses_->add(tensor, cast(out.data(), to, bytes.data(), from, elements, run_.cast));
  return out;
}

// Writes the box of a unit to the output regions that it crosses. An item that fits into the unit is made in memory and written at once, in
// a batch together with its neighbours in the file. The payload of a larger one is written piece by piece, and its frame by the worker that
// adds the last byte to its sum.

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
