#include "exec/pieces.h"

#include <algorithm>

#include "exec/unit_walk.h"
#include "items/item_source.h"
#include "items/predicted_heads.h"

namespace dcp {
namespace {

// A span of a strided source may include bytes that it does not need: always up to this size, beyond it up to four times the bytes needed.
constexpr uint64_t kFreeSpan = 64 * kKiB;

}  // namespace

bool next_index(Numbers& index, const Numbers& sizes, size_t count) {
  for (size_t d = count; d-- > 0;) {
    if (++index[d] < sizes[d]) return true;
    index[d] = 0;
  }
  return false;
}

MutableBytes FilePieces::read(uint32_t file, uint64_t offset, MutableBytes into) {
  if (files_.predicted) files_.predicted->prove(files_, file, offset);
  const auto open = files_.open(file);
  read_exact(files_.store(), open->get(), offset, into);
  return into;
}

void FilePieces::decode(const Item& item, const Place& place, uint64_t cap, const std::function<void(Bytes)>& sink) {
  decode_item(files_, item, place, cap, sink);
}

ChunkSpans ChunkReads::of_box(uint32_t chunk, BoxView part) const {
  const BoxView whole = catalog_.box(tensor_, chunk);
  const size_t rank = tensor_.rank;
  ChunkSpans s{.item = catalog_.item_of(tensor_, chunk), .rank = rank, .outer = rank};
  s.info = &resolved_.items[s.item];
  const bool strided = s.info->strides_at != 0;
  s.strides = row_major(whole.sizes);
  if (strided) {
    const int64_t* stored = resolved_.strides.data() + s.info->strides_at;
    s.first = static_cast<uint64_t>(stored[0]);
    std::copy_n(stored + 1, rank, s.strides.begin());
  }
  for (size_t d = 0; d < rank; ++d) {
    s.sizes[d] = part.sizes[d];
    s.to[d] = part.offsets[d];
    s.steps[d] = 1;
    s.dims[d] = static_cast<uint32_t>(d);
    s.first += static_cast<uint64_t>((part.offsets[d] - whole.offsets[d]) * s.strides[d]);
  }
  join_axes(s, strided);
  return s;
}

ChunkSpans ChunkReads::of_view(uint32_t chunk, const View& view, const AxisBox& cut) const {
  const std::span<const ViewAxis> axes = resolved_.views.axes_of(view);
  ChunkSpans s{.item = catalog_.item_of(tensor_, chunk), .rank = axes.size(), .outer = axes.size(), .first = view.first};
  s.info = &resolved_.items[s.item];
  std::ranges::copy(catalog_.box(tensor_, chunk).offsets, s.to.begin());
  for (size_t a = 0; a < axes.size(); ++a) {
    s.sizes[a] = cut.count[a];
    s.strides[a] = axes[a].stride;
    s.steps[a] = axes[a].step;
    s.dims[a] = axes[a].dim;
    s.to[axes[a].dim] += cut.first[a] * axes[a].step;
    s.first += static_cast<uint64_t>(cut.first[a] * axes[a].stride);
  }
  join_axes(s, true);
  return s;
}

// Joins as many of the fastest axes as one read can cover. If the record's CRC is summed on the way, the read must be exactly dense, since
// each byte must be seen once; otherwise it may have gaps that are not too wide.
void ChunkReads::join_axes(ChunkSpans& s, bool strided) const {
  for (size_t a = 0; a < s.rank; ++a) s.order[a] = a;
  if (strided)
    std::stable_sort(s.order.begin(), s.order.begin() + static_cast<int64_t>(s.rank),
                     [&](size_t x, size_t y) { return s.strides[x] > s.strides[y]; });
  const bool may_skip = strided && plan_.checks[s.item] != CrcCheck::kFromUnits;
  const uint64_t widest = resolved_.views.any() ? 0 : 4;  // times the bytes used
  const uint64_t element_bytes = bytes_of(s.info->dtype);
  while (s.outer > 0) {
    const size_t a = s.order[s.outer - 1];
    const auto n = static_cast<uint64_t>(s.sizes[a]);
    const uint64_t extent = s.extent + (n - 1) * static_cast<uint64_t>(s.strides[a]);
    const bool dense = extent == s.count * n;
    if (!dense && (!may_skip || (extent * element_bytes > kFreeSpan && extent > widest * s.count * n))) break;
    s.extent = extent;
    s.count *= n;
    --s.outer;
  }
}

namespace {

// The reads of a unit's steps.
struct Reads {
  const Plan& plan;
  const SourceFacts& source;
  const MaxExtents& extents;
  const ReadVisitor& visit;

  void begin_batch(const Group&) {}
  void end_batch() {}
  void empty_items(uint32_t) {}
  void box(uint32_t tensor, BoxView box) {
    const Tensor& t = source.catalog.tensors[plan.tensors[tensor].id];
    const ChunkReads reads(plan, source, t);
    each_chunk(extents, tensor, box, [&](uint32_t chunk, BoxView part) {
      reads.each(chunk, part, [&](const ChunkSpans& spans) {
        const uint32_t file = source.catalog.items[spans.item].file;
        spans.each([&](uint64_t element, const Numbers&) {
          visit.read(file, spans.info->record + element * bytes_of(spans.info->dtype), spans.bytes());
        });
      });
    });
  }
  void stream(uint32_t tensor, uint32_t chunk) {
    visit.decode(source_of(source, source.catalog.item_of(source.catalog.tensors[plan.tensors[tensor].id], chunk)));
  }
  void scatter_record(const Group& g) {
    const Scattered& s = plan.scattered[g.first];
    const ItemId item = source.catalog.item_of(source.catalog.tensors[plan.tensors[s.tensor].id], s.chunk);
    if (source.catalog.items[item].file != kNone) visit.decode(source_of(source, item));
  }
  void copy(uint32_t range, uint64_t at, uint64_t bytes) {
    const CopyRange& c = plan.copies[range];
    if (!c.from_decoded) visit.read(source.catalog.items[c.item].file, c.source_offset + at, bytes);
  }
  void copy_deflated(uint32_t range) { visit.decode(plan.copies[range].deflated(source.catalog)); }
  void check(const Group&, uint32_t file, uint64_t at, uint64_t bytes) { visit.read(file, at, bytes); }
  void check_decoded(const Group& g) { visit.decode(source.catalog.item_of(plan.records[g.first])); }
};

}  // namespace

void visit_reads(const Plan& plan, const SourceFacts& source, const MaxExtents& extents, uint64_t unit, const ReadVisitor& visit) {
  walk_unit(plan, source.catalog, unit, Reads{plan, source, extents, visit});
}

}  // namespace dcp
