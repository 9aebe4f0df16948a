#include "exec/pieces.h"

#include <algorithm>

#include "catalog/item_source.h"
#include "exec/unit_walk.h"

namespace dcp {
namespace {

// A span of a strided source may read past what it needs: always up to this, beyond it up to four times what it uses.
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
  const auto open = files_.open(file);
  read_exact(files_.io(), open->get(), offset, into);
  return into;
}

void FilePieces::decode(const Item& item, const Place& place, uint64_t cap, const std::function<void(Bytes)>& sink) {
  decode_item(files_, catalog_, item, place, cap, sink);
}

ChunkSpans spans_of(const Catalog& catalog, const Resolved& resolved, const Tensor& t, uint32_t chunk, BoxView part) {
  const BoxView whole = catalog.box(t, chunk);
  ChunkSpans s{.item = catalog.item_of(t, chunk), .rank = t.rank, .outer = t.rank};
  s.info = &resolved.items[s.item];
  const bool strided = s.info->strides_at != 0;
  s.strides = row_major(whole.sizes);
  if (strided) {
    const int64_t* stored = resolved.strides.data() + s.info->strides_at;
    s.first = static_cast<uint64_t>(stored[0]);
    std::copy_n(stored + 1, t.rank, s.strides.begin());
  }
  for (size_t d = 0; d < t.rank; ++d) {
    s.order[d] = d;
    s.sizes[d] = part.sizes[d];
    s.first += static_cast<uint64_t>((part.offsets[d] - whole.offsets[d]) * s.strides[d]);
  }
  if (strided) std::stable_sort(s.order.begin(), s.order.begin() + t.rank, [&](size_t x, size_t y) { return s.strides[x] > s.strides[y]; });

  // As many of the fastest dims as can be had in one read: exactly dense where the record's CRC is summed on the way, since each byte
  // must be seen once; else with gaps that are not too wide.
  const uint64_t element_bytes = bytes_of(s.info->dtype);
  while (s.outer > 0) {
    const size_t d = s.order[s.outer - 1];
    const auto n = static_cast<uint64_t>(part.sizes[d]);
    const uint64_t extent = s.extent + (n - 1) * static_cast<uint64_t>(s.strides[d]);
    const bool dense = extent == s.count * n;
    if (!dense && (!strided || (extent * element_bytes > kFreeSpan && extent > 4 * s.count * n))) break;
    s.extent = extent;
    s.count *= n;
    --s.outer;
  }
  return s;
}

namespace {

// The reads of a unit's steps.
struct Reads {
  const Plan& plan;
  const Catalog& catalog;
  const Resolved& resolved;
  const MaxExtents& extents;
  const ReadVisitor& visit;

  void begin_batch(const Group&) {}
  void end_batch() {}
  void empty_items(uint32_t) {}
  void box(uint32_t tensor, BoxView box) {
    const Tensor& t = catalog.tensors[plan.tensors[tensor].id];
    each_chunk(plan, catalog, extents, tensor, box, [&](uint32_t chunk, BoxView part) {
      const ChunkSpans spans = spans_of(catalog, resolved, t, chunk, part);
      const uint32_t file = catalog.items[spans.item].file;
      spans.each([&](uint64_t element, const Numbers&) {
        visit.read(file, spans.info->record + element * bytes_of(spans.info->dtype), spans.bytes());
      });
    });
  }
  void stream(uint32_t tensor, uint32_t chunk) {
    visit.decode(source_of(catalog, resolved, catalog.item_of(catalog.tensors[plan.tensors[tensor].id], chunk)));
  }
  void copy(uint32_t range, uint64_t at, uint64_t bytes) {
    const CopyRange& c = plan.copies[range];
    if (!c.from_decoded) visit.read(catalog.items[c.item].file, c.source_offset + at, bytes);
  }
  void copy_deflated(uint32_t range) { visit.decode(plan.copies[range].deflated(catalog)); }
  void check(const Group&, uint32_t file, uint64_t at, uint64_t bytes) { visit.read(file, at, bytes); }
  void check_decoded(const Group& g) { visit.decode(catalog.item_of(plan.records[g.first])); }
};

}  // namespace

void visit_reads(const Plan& plan, const Catalog& catalog, const Resolved& resolved, const MaxExtents& extents, uint64_t unit,
                 const ReadVisitor& visit) {
  walk_unit(plan, catalog, unit, Reads{plan, catalog, resolved, extents, visit});
}

}  // namespace dcp
