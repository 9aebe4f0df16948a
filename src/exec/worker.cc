#include "exec/worker.h"

#include <algorithm>
#include <functional>

#include "kernels/kernels.h"

namespace dcp {
namespace {

using Numbers = std::array<int64_t, kMaxRank>;

// A span of a strided source may read past what it needs: always up to this, beyond it up to four times what it uses.
constexpr uint64_t kFreeSpan = 64 * kKiB;

Numbers row_major(Dims sizes) {
  Numbers strides{};
  int64_t stride = 1;
  for (size_t d = sizes.size(); d-- > 0;) {
    strides[d] = stride;
    stride *= sizes[d];
  }
  return strides;
}

// Counts through the first `count` of `sizes`, last fastest; false after the last.
bool next_index(Numbers& index, const Numbers& sizes, size_t count) {
  for (size_t d = count; d-- > 0;) {
    if (++index[d] < sizes[d]) return true;
    index[d] = 0;
  }
  return false;
}

}  // namespace

MutableBytes Worker::Buffer::first(uint64_t bytes) {
  if (bytes > bytes_) {
    data_.reset();  // before the new one: the old bytes are not wanted
    data_ = std::make_unique_for_overwrite<std::byte[]>(bytes);
    bytes_ = bytes;
  }
  return {data_.get(), bytes};
}

MutableBytes Worker::read(uint32_t file, uint64_t offset, MutableBytes into) {
  const auto open = run_.files.open(file);
  read_exact(run_.files.io(), open->get(), offset, into);
  run_.progress.bytes_read.fetch_add(into.size(), std::memory_order_relaxed);
  return into;
}

void Worker::write(uint32_t file, uint64_t offset, Bytes bytes) {
  run_.sink.write(file, offset, bytes);
  run_.progress.bytes_written.fetch_add(bytes.size(), std::memory_order_relaxed);
}

void Worker::unit(uint64_t ordinal) {
  const Group& g = run_.plan.group_of(ordinal);
  const uint64_t k = ordinal - g.first_unit;
  switch (g.kind) {
    case Group::Kind::kGrid:
      unit_box(run_.plan, run_.catalog, g, k, offsets_, sizes_);
      return box(run_.plan.tensors[g.first], {offsets_, sizes_});
    case Group::Kind::kBatch:
      for (uint32_t i = g.first; i < g.first + g.count; ++i) {
        const PlanTensor& p = run_.plan.tensors[i];
        const Dims dims = run_.catalog.dims(run_.catalog.tensors[p.id]);
        offsets_.assign(dims.size(), 0);
        if (volume(dims) > 0) box(p, {offsets_, dims});
      }
      return;
    case Group::Kind::kStream: return stream(run_.plan.tensors[g.first], static_cast<uint32_t>(k));
    case Group::Kind::kCopy: return copy(g.first, k);
    case Group::Kind::kCheck: return check(g, k);
  }
}

void Worker::box(const PlanTensor& tensor, BoxView box) {
  const Tensor& t = run_.catalog.tensors[tensor.id];
  Assembly a{.tensor = &tensor, .box = box, .dtype = t.dtype, .strides = row_major(box.sizes)};
  a.bytes = assembled_.first(volume(box.sizes) * bytes_of(t.dtype));
  a.wants_raw = tensor.region_count == 1 && run_.sums.wants_region(tensor.first_region) && run_.plan.regions[tensor.first_region].dtype == t.dtype;

  // Chunks are sorted by offsets: on dim 0 those that start before the box ends and not longer before it than the longest one reaches.
  uint32_t c = 0;
  if (t.rank > 0) {
    const int64_t reach = run_.longest_chunk[static_cast<size_t>(&tensor - run_.plan.tensors.data())];
    uint32_t low = 0, high = t.chunk_count;
    while (low < high) {
      const uint32_t mid = low + (high - low) / 2;
      if (run_.catalog.box(t, mid).offsets[0] + reach <= box.offsets[0]) low = mid + 1;
      else high = mid;
    }
    c = low;
  }
  Numbers offsets, sizes;
  for (; c < t.chunk_count; ++c) {
    const BoxView chunk = run_.catalog.box(t, c);
    if (t.rank > 0 && chunk.offsets[0] >= box.offsets[0] + box.sizes[0]) break;
    if (intersect(box, chunk, offsets.data(), sizes.data()))
      place_chunk(a, t, c, {Dims(offsets.data(), t.rank), Dims(sizes.data(), t.rank)});
  }
  a.bytes = cast_elements(tensor, a.bytes, volume(box.sizes), t.dtype);
  for (uint32_t r = tensor.first_region; r < tensor.first_region + tensor.region_count; ++r) {
    const int64_t* region = run_.plan.numbers.data() + run_.plan.regions[r].box_at;
    if (intersect(box, {Dims(region, t.rank), Dims(region + t.rank, t.rank)}, offsets.data(), sizes.data()))
      write_region(a, r, {Dims(offsets.data(), t.rank), Dims(sizes.data(), t.rank)});
  }
}

void Worker::place_chunk(Assembly& a, const Tensor& t, uint32_t chunk, BoxView part) {
  const BoxView whole = run_.catalog.box(t, chunk);
  Piece p{.item = run_.catalog.item_of(t, chunk)};
  p.info = &run_.resolved.items[p.item];
  const bool strided = p.info->strides_at != 0;
  Numbers strides = row_major(whole.sizes);
  uint64_t element = 0, to = 0;
  if (strided) {
    const int64_t* stored = run_.resolved.strides.data() + p.info->strides_at;
    element = static_cast<uint64_t>(stored[0]);
    std::copy_n(stored + 1, t.rank, strides.begin());
  }
  std::array<size_t, kMaxRank> order{};  // dims by falling stride in the source
  for (size_t d = 0; d < t.rank; ++d) {
    order[d] = d;
    element += static_cast<uint64_t>((part.offsets[d] - whole.offsets[d]) * strides[d]);
    to += static_cast<uint64_t>((part.offsets[d] - a.box.offsets[d]) * a.strides[d]);
  }
  if (strided) std::stable_sort(order.begin(), order.begin() + t.rank, [&](size_t x, size_t y) { return strides[x] > strides[y]; });

  // As many of the fastest dims as can be had in one read: exactly dense where the record's CRC is summed on the way, since each byte
  // must be seen once; else with gaps that are not too wide.
  const uint64_t element_bytes = bytes_of(p.info->dtype);
  uint64_t count = 1;
  size_t outer = t.rank;
  p.dense_to = true;
  while (outer > 0) {
    const size_t d = order[outer - 1];
    const auto n = static_cast<uint64_t>(part.sizes[d]);
    const uint64_t extent = p.extent + (n - 1) * static_cast<uint64_t>(strides[d]);
    const bool dense = extent == count * n;
    if (!dense && (!strided || (extent * element_bytes > kFreeSpan && extent > 4 * count * n))) break;
    // Strides of elements that share places can make the extent of a span equal to its count.
    if (!dense || (n > 1 && a.strides[d] != static_cast<int64_t>(count))) p.dense_to = false;
    p.extent = extent;
    count *= n;
    --outer;
  }
  p.inner = t.rank - outer;
  for (size_t i = 0; i < p.inner; ++i) {
    p.sizes[i] = part.sizes[order[outer + i]];
    p.from_strides[i] = strides[order[outer + i]];
    p.to_strides[i] = a.strides[order[outer + i]];
  }
  Numbers index{}, outer_sizes{};
  for (size_t i = 0; i < outer; ++i) outer_sizes[i] = part.sizes[order[i]];
  do {
    uint64_t from_at = element, to_at = to;
    for (size_t i = 0; i < outer; ++i) {
      from_at += static_cast<uint64_t>(index[i] * strides[order[i]]);
      to_at += static_cast<uint64_t>(index[i] * a.strides[order[i]]);
    }
    place_span(a, p, from_at, to_at);
  } while (next_index(index, outer_sizes, outer));
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

MutableBytes Worker::cast_elements(const PlanTensor& tensor, MutableBytes bytes, uint64_t elements, DType from) {
  const DType to = tensor.region_count == 0 ? from : run_.plan.regions[tensor.first_region].dtype;
  if (to == from) return bytes;
  const MutableBytes out = cast_.first(elements * bytes_of(to));
  const auto index = static_cast<uint32_t>(&tensor - run_.plan.tensors.data());
  run_.losses.add(index, cast(out.data(), to, bytes.data(), from, elements, run_.cast));
  return out;
}

void Worker::place_span(Assembly& a, const Piece& p, uint64_t element, uint64_t to) {
  const ItemInfo& info = *p.info;
  const uint64_t bytes = p.extent * bytes_of(info.dtype);
  const uint64_t at = element * bytes_of(info.dtype);
  const uint64_t to_at = to * bytes_of(a.dtype);
  const bool plain = info.dtype == a.dtype && !info.swap && !info.conj && !info.neg;
  const bool direct = plain && p.dense_to;
  const MutableBytes span = read(run_.catalog.items[p.item].file, info.record + at, direct ? a.bytes.subspan(to_at, bytes) : source_.first(bytes));
  const bool summed = run_.plan.checks[p.item] == CrcCheck::kFromUnits;
  if (summed || (direct && a.wants_raw)) {
    const uint32_t raw = crc32_raw(span);
    if (summed) run_.sums.add_item(p.item, raw, bytes, info.record_bytes - at - bytes);
    if (direct && a.wants_raw) {
      a.raw ^= crc32_shift(raw, a.bytes.size() - to_at - bytes);
      a.raw_bytes += bytes;
    }
  }
  if (direct) return;
  const MutableBytes elements = finish_elements(info, span, p.extent, a.dtype);
  copy_strided(a.bytes.data() + to_at, {p.to_strides.data(), p.inner}, elements.data(), {p.from_strides.data(), p.inner},
               {p.sizes.data(), p.inner}, static_cast<unsigned>(bytes_of(a.dtype)));
}

void Worker::write_region(const Assembly& a, uint32_t index, BoxView part) {
  const Region& region = run_.plan.regions[index];
  const size_t rank = part.sizes.size();
  const int64_t* numbers = run_.plan.numbers.data() + region.box_at;
  const Dims origin(numbers, rank), extent(numbers + rank, rank);
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
      copy_strided(packed.data(), {dense.data(), inner.size()}, out.data(), {a.strides.data() + outer, inner.size()}, inner, static_cast<unsigned>(element));
      out = packed;
    }
    out = out.first(bytes);
    if (run_.sums.wants_region(index)) {
      const bool known = a.raw_bytes == bytes && a.raw_bytes == a.bytes.size();
      run_.sums.add_region(index, known ? a.raw : crc32_raw(out), bytes, region_bytes - to_run * element - bytes);
    }
    write(region.file, region.file_offset + to_run * element, out);
  } while (next_index(index_of, sizes, outer));
}

void Worker::copy(uint32_t index, uint64_t block) {
  const CopyRange& c = run_.plan.copies[index];
  const uint64_t at = block * kPassBytes;
  const uint64_t bytes = std::min(kPassBytes, c.bytes - at);
  Bytes data;
  if (c.from_decoded) data = Bytes(run_.resolved.blobs.at(c.item).decoded).subspan(c.source_offset + at, bytes);
  else data = read(run_.catalog.items[c.item].file, c.source_offset + at, source_.first(bytes));
  run_.sums.add_copy(index, crc32_raw(data), bytes, c.bytes - at - bytes);
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
    run_.sums.add_record(index, crc32_raw(data.subspan(begin - at, end - begin)), end - begin, r.offset + r.bytes - end);
  }
}

}  // namespace dcp
