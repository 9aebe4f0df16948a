#include "exec/worker.h"

#include <algorithm>
#include <functional>

namespace dcp {

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

}  // namespace dcp
