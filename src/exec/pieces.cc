#include "exec/pieces.h"

#include <algorithm>

#include "catalog/item_source.h"
#include "exec/overlaps.h"
#include "exec/worker.h"

namespace dcp {
namespace {

// A span of a strided source may read past what it needs: always up to this, beyond it up to four times what it uses.
constexpr uint64_t kFreeSpan = 64 * kKiB;

}  // namespace

bool next_index(std::array<int64_t, 64>& index, const std::array<int64_t, 64>& sizes, size_t count) {
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

class Visitor {
 public:
  Visitor(const Plan& plan, const Catalog& catalog, const Resolved& resolved, const Reach& reach, const ReadVisitor& visit)
      : plan_(plan), catalog_(catalog), resolved_(resolved), reach_(reach), visit_(visit) {}

  void unit(uint64_t ordinal) {
    const Group& g = plan_.group_of(ordinal);
    const uint64_t k = ordinal - g.first_unit;
    switch (g.kind) {
      case Group::Kind::kGrid:
        unit_box(plan_, catalog_, g, k, offsets_, sizes_);
        return box(g.first, {offsets_, sizes_});
      case Group::Kind::kBatch: return batch(g);
      case Group::Kind::kStream: return stream(g.first, static_cast<uint32_t>(k));
      case Group::Kind::kCopy: return copy(plan_.copies[g.first], k);
      case Group::Kind::kCheck: return check(g, k);
    }
  }

 private:
  void batch(const Group& g) {
    for (uint32_t i = g.first; i < g.first + g.count; ++i) {
      const Dims dims = catalog_.dims(catalog_.tensors[plan_.tensors[i].id]);
      offsets_.assign(dims.size(), 0);
      if (volume(dims) > 0) box(i, {offsets_, dims});
    }
  }

  void box(uint32_t tensor, BoxView box) {
    const Tensor& t = catalog_.tensors[plan_.tensors[tensor].id];
    const auto offsets_of = [&](uint32_t c) { return catalog_.box(t, c).offsets; };
    visit_overlaps(0, t.chunk_count, reach_.chunks(tensor), box, offsets_of, [&](uint32_t c) {
      Numbers offsets, sizes;
      if (!intersect(box, catalog_.box(t, c), offsets.data(), sizes.data())) return;
      const ChunkSpans spans = spans_of(catalog_, resolved_, t, c, {Dims(offsets.data(), t.rank), Dims(sizes.data(), t.rank)});
      const uint32_t file = catalog_.items[spans.item].file;
      spans.each([&](uint64_t element, const Numbers&) { visit_.read(file, spans.info->record + element * bytes_of(spans.info->dtype), spans.bytes()); });
    });
  }

  void stream(uint32_t tensor, uint32_t chunk) {
    const Tensor& t = catalog_.tensors[plan_.tensors[tensor].id];
    if (volume(catalog_.box(t, chunk).sizes) > 0) visit_.decode(source_of(catalog_, resolved_, catalog_.item_of(t, chunk)));
  }

  void copy(const CopyRange& c, uint64_t block) {
    const uint64_t at = block * kPassBytes;
    if (c.packed != 0) return visit_.decode(Item::deflated(c.source_offset, c.packed, catalog_.items[c.item].file));
    if (!c.from_decoded) visit_.read(catalog_.items[c.item].file, c.source_offset + at, std::min(kPassBytes, c.bytes - at));
  }

  void check(const Group& g, uint64_t block) {
    const ItemRecord& first = plan_.records[g.first];
    const ItemRecord& last = plan_.records[g.first + g.count - 1];
    if (catalog_.item_of(first).transforms != 0) return visit_.decode(catalog_.item_of(first));
    const uint64_t begin = first.offset + block * kPassBytes, stop = std::min(begin + kPassBytes, last.offset + last.bytes);
    for (uint64_t at = begin; at < stop; at += kCheckBytes) visit_.read(catalog_.item_of(first).file, at, std::min(kCheckBytes, stop - at));
  }

  const Plan& plan_;
  const Catalog& catalog_;
  const Resolved& resolved_;
  const Reach& reach_;
  const ReadVisitor& visit_;
  std::vector<int64_t> offsets_, sizes_;
};

}  // namespace

void visit_reads(const Plan& plan, const Catalog& catalog, const Resolved& resolved, const Reach& reach, uint64_t unit, const ReadVisitor& visit) {
  Visitor(plan, catalog, resolved, reach, visit).unit(unit);
}

}  // namespace dcp
