// Reads source chunks into the box of a unit, in as few reads as the chunks' layout allows; each byte of a dense record is read exactly
// once.
#include <algorithm>

#include "exec/worker.h"
#include "kernels/kernels.h"

namespace dcp {

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

}  // namespace dcp
