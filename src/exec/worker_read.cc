// From source chunks into the box of a unit: as few reads as the chunks' layout allows, each byte of a dense record exactly once.
#include <algorithm>

#include "exec/worker.h"
#include "kernels/kernels.h"

namespace dcp {
namespace {

// A span of a strided source may read past what it needs: always up to this, beyond it up to four times what it uses.
constexpr uint64_t kFreeSpan = 64 * kKiB;

}  // namespace

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

MutableBytes Worker::cast_elements(uint32_t tensor, MutableBytes bytes, uint64_t elements, DType from) {
  const PlanTensor& p = run_.plan.tensors[tensor];
  const DType to = p.region_count == 0 ? from : run_.plan.regions[p.first_region].dtype;
  if (to == from) return bytes;
  const MutableBytes out = cast_.first(elements * bytes_of(to));
  run_.losses.add(tensor, cast(out.data(), to, bytes.data(), from, elements, run_.cast));
  return out;
}

}  // namespace dcp
