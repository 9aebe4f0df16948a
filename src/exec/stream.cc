// The units of what has no random access: it is decoded once from front to back, and summed and scattered while it is decoded.
#include <algorithm>

#include "base/checked.h"
#include "exec/worker.h"
#include "kernels/kernels.h"

namespace dcp {
namespace {

// A chunk's elements in row-major order, cut into boxes of the tensor that are runs of the chunk: some dims fixed, one ranged, the rest
// full.
class Bands {
 public:
  Bands(BoxView chunk, uint64_t max_elements) : chunk_(chunk), dim_(chunk.sizes.size()) {
    while (dim_ > 0 && row_ * static_cast<uint64_t>(chunk.sizes[dim_ - 1]) <= max_elements)
      row_ *= static_cast<uint64_t>(chunk.sizes[--dim_]);
    step_ = std::max<uint64_t>(max_elements / row_, 1);
  }
  // The box that begins with element `done`. Returns its elements.
  uint64_t at(uint64_t done, Numbers& offsets, Numbers& sizes) const {
    std::ranges::copy(chunk_.offsets, offsets.begin());
    std::ranges::copy(chunk_.sizes, sizes.begin());
    if (dim_ == 0) return row_;
    uint64_t index = done / row_;
    for (size_t d = dim_; d-- > 0;) {
      const auto n = static_cast<uint64_t>(chunk_.sizes[d]);
      offsets[d] += static_cast<int64_t>(index % n);
      sizes[d] = d + 1 == dim_ ? static_cast<int64_t>(std::min(step_, n - index % n)) : 1;
      index /= n;
    }
    return row_ * static_cast<uint64_t>(sizes[dim_ - 1]);
  }

 private:
  BoxView chunk_;
  size_t dim_;         // dims from here on are full
  uint64_t row_ = 1;   // elements of them
  uint64_t step_ = 1;  // indices of the dim before
};

// The length is checked where the bytes arrive, because another rank may have decoded the record.
void check_inflated(const Place& place, uint64_t bytes, uint64_t expected) {
  if (bytes != expected) fail(ProblemId::deflate_broken, place, std::to_string(bytes) + " bytes", std::to_string(expected));
}

}  // namespace

void Worker::decode_record(ItemId item, const std::function<void(Bytes)>& sink) {
  const ItemInfo& info = resolved_.items[item];
  const Item& source = source_of(run_.source, item);
  const bool deflated = source.transforms == Item::kDeflated;
  // The record lies at [first, last) of the decoded stream; what is before and after it is the archive's frame. Positions in an item
  // without a transform, which may lie beside transformed ones, are resolved in its file; a deflated record is its own stream.
  const uint64_t first = info.record - (source.transforms == 0 || deflated ? source.offset : 0);
  const uint64_t last = add_or_fail(first, info.record_bytes, {});
  const uint64_t cap = deflated ? last : add_or_fail(last, 16 * kMiB, {});
  Place place = catalog_.place_of(item, catalog_.key_of_item(item));
  if (deflated) place.offset = source.offset, place.length = source.length;
  uint64_t position = 0, seen = 0;
  pieces_->decode(source, place, cap, [&](Bytes block) {
    const uint64_t begin = std::max(position, first), end = std::min(position + block.size(), last);
    const Bytes part = begin < end ? block.subspan(begin - position, end - begin) : Bytes();
    position += block.size();
    seen += part.size();
    if (sums_->wants_item(item)) sums_->add_item(item, crc32_raw(part), part.size(), info.record_bytes - seen);
    sink(part);
  });
  run_.progress.bytes_read.fetch_add(source.length, std::memory_order_relaxed);
  if (deflated) check_inflated(place, position, last);
  if (seen != info.record_bytes)  // the stream has changed since it was resolved
    fail(ProblemId::zstd_truncated, place, std::to_string(position) + " bytes", std::to_string(last) + " or more");
}

// `done` counts elements already placed.
void Worker::stream(uint32_t tensor, uint32_t chunk) {
  const Tensor& t = catalog_.tensors[run_.plan.tensors[tensor].id];
  const BoxView box = catalog_.box(t, chunk);
  const uint64_t total = volume(box.sizes);
  const ItemId item = catalog_.item_of(t, chunk);
  const ItemInfo& info = resolved_.items[item];
  const uint64_t stored = bytes_of(info.dtype), element = bytes_of(t.dtype);
  const Bands bands(box, kPassBytes / element);
  Numbers offsets, sizes;
  Assembly band{.box = {}, .dtype = t.dtype, .bytes = {}};
  uint64_t done = 0, filled = 0;  // of the band: bytes

  const auto deliver = [&](Bytes elements) {
    while (!elements.empty()) {
      if (filled == 0) {
        band.bytes = assembled_.first(bands.at(done, offsets, sizes) * element);
        band.box = {Dims(offsets.data(), t.rank), Dims(sizes.data(), t.rank)};
        band.strides = row_major(band.box.sizes);
      }
      const uint64_t bytes = std::min<uint64_t>(elements.size(), band.bytes.size() - filled);
      std::ranges::copy(elements.first(bytes), band.bytes.begin() + static_cast<int64_t>(filled));
      elements = elements.subspan(bytes);
      filled += bytes;
      done += bytes / element;
      if (filled < band.bytes.size()) continue;
      band.bytes = cast_elements(tensor, band.bytes, filled / element, t.dtype);
      scatter(tensor, band);
      filled = 0;
    }
  };

  const bool whole = info.strides_at != 0;  // strided: first collected, then gathered
  const MutableBytes record = source_.first(whole ? info.record_bytes : kPassBytes);
  uint64_t held = 0;
  const auto flush = [&] {
    const uint64_t elements = std::min(held / stored, total - done);
    deliver(finish_elements(info, record.first(elements * stored), elements, t.dtype));
    std::move(record.begin() + static_cast<int64_t>(elements * stored), record.begin() + static_cast<int64_t>(held), record.begin());
    held = done == total ? 0 : held - elements * stored;  // a storage may be larger than its tensor
  };
  decode_record(item, [&](Bytes part) {
    while (!part.empty()) {
      const uint64_t n = std::min<uint64_t>(part.size(), record.size() - held);
      std::copy_n(part.begin(), n, record.begin() + static_cast<int64_t>(held));
      held += n;
      part = part.subspan(n);
      if (!whole && held == record.size()) flush();
    }
  });
  if (!whole) return flush();
  const int64_t* strides = resolved_.strides.data() + info.strides_at;
  const MutableBytes dense = dense_.first(total * stored);  // scatter() uses the other buffers while this is delivered
  std::vector<int64_t> to(t.rank);
  int64_t stride = 1;
  for (size_t d = t.rank; d-- > 0; stride *= box.sizes[d]) to[d] = stride;
  copy_strided(dense.data(), to, record.data() + static_cast<uint64_t>(strides[0]) * stored, {strides + 1, t.rank}, box.sizes,
               static_cast<unsigned>(stored));
  deliver(finish_elements(info, dense, total, t.dtype));
}

void Worker::copy_deflated(uint32_t range) {
  const CopyRange& c = run_.plan.copies[range];
  const Item item = c.deflated(catalog_);
  const Place place{.path = catalog_.file_path(item.file),
                    .tensor = std::string(catalog_.key_of_item(c.item)),
                    .object = c.item >= catalog_.chunk_total,
                    .offset = item.offset,
                    .length = item.length};
  uint64_t at = 0;
  pieces_->decode(item, place, c.bytes, [&](Bytes block) {
    if (block.size() > c.bytes - at) check_inflated(place, at + block.size(), c.bytes);
    copy_part(range, at, block);
    at += block.size();
  });
  run_.progress.bytes_read.fetch_add(item.length, std::memory_order_relaxed);
  check_inflated(place, at, c.bytes);
}

void Worker::check_decoded(const Group& g) {
  std::span<const ItemRecord> records = std::span(run_.plan.records).subspan(g.first, g.count);
  const Item item = catalog_.item_of(records[0]);
  const Place place = place_of(catalog_, records[0]);
  const uint64_t end = records.back().offset + records.back().bytes;
  const bool deflated = item.transforms == Item::kDeflated;
  uint64_t at = deflated ? item.offset : 0;
  pieces_->decode(item, place, deflated ? end - at : add_or_fail(end, 16 * kMiB, place), [&](Bytes block) {
    add_parts(records, at, block);
    at += block.size();
  });
  run_.progress.bytes_read.fetch_add(item.length, std::memory_order_relaxed);
  if (deflated) check_inflated(place, at, end);
  if (at < end) fail(ProblemId::zstd_truncated, place, std::to_string(at) + " bytes", std::to_string(end) + " or more");
}

// The unit of a transformed record with views: it is decoded once for all of them, and scattered while it is decoded.

void Worker::scatter_record(const Group& g) {
  const std::span<const Scattered> views = std::span(run_.plan.scattered).subspan(g.first, g.count);
  const Tensor& t = catalog_.tensors[run_.plan.tensors[views[0].tensor].id];
  const ItemId item = catalog_.item_of(t, views[0].chunk);
  const auto box_bytes = static_cast<uint64_t>(run_.plan.numbers[g.steps_at + 1]);
  if (catalog_.items[item].file == kNone) {
    constexpr std::array<std::byte, 16> kZero{};
    return scatter_window(views[0], {.elements = kZero, .count = 1, .whole = true, .box_bytes = box_bytes});
  }
  const ItemInfo& info = resolved_.items[item];
  const uint64_t stored = bytes_of(info.dtype);
  const MutableBytes window = source_.first(static_cast<uint64_t>(run_.plan.numbers[g.steps_at]));
  uint64_t held = 0, done = 0;  // bytes; elements before the window
  const auto flush = [&] {
    const uint64_t count = held / stored;
    if (count == 0) return;
    const MutableBytes elements = finish_elements(info, window.first(count * stored), count, t.dtype);
    for (const Scattered& v : views)
      scatter_window(
          v, {.elements = elements, .first = done, .count = count, .whole = window.size() == info.record_bytes, .box_bytes = box_bytes});
    std::move(window.begin() + static_cast<int64_t>(count * stored), window.begin() + static_cast<int64_t>(held), window.begin());
    done += count;
    held -= count * stored;
  };
  decode_record(item, [&](Bytes part) {
    while (!part.empty()) {
      const uint64_t n = std::min<uint64_t>(part.size(), window.size() - held);
      std::copy_n(part.begin(), n, window.begin() + static_cast<int64_t>(held));
      held += n;
      part = part.subspan(n);
      if (held == window.size()) flush();
    }
  });
  flush();
}

// Scatters the part of the chunk that lies in the window, as boxes of its axes. Along each dim, the axis whose neighbours are neighbours in
// the tensor spans a box; the others are stepped through index by index.
void Worker::scatter_window(const Scattered& to, const Window& window) {
  const Tensor& t = catalog_.tensors[run_.plan.tensors[to.tensor].id];
  const BoxView box = catalog_.box(t, to.chunk);
  uint64_t first = 0;
  std::vector<ViewAxis> axes = axes_of(run_.source, t, to.chunk, first);
  std::ranges::stable_sort(axes, std::ranges::greater(), &ViewAxis::stride);
  const auto scatter_cut = [&](const AxisBox& cut) {
    Numbers offsets{}, sizes{}, strides{}, outer{}, index{};
    std::ranges::copy(box.offsets, offsets.begin());
    std::fill_n(sizes.begin(), t.rank, 1);
    int64_t from = static_cast<int64_t>(first) - static_cast<int64_t>(window.first);
    for (size_t a = 0; a < axes.size(); ++a) {
      const ViewAxis& axis = axes[a];
      offsets[axis.dim] += cut.first[a] * axis.step;
      from += cut.first[a] * axis.stride;
      outer[a] = cut.count[a];
      if (axis.step != 1) continue;
      sizes[axis.dim] = std::exchange(outer[a], 1);
      strides[axis.dim] = axis.stride;
    }
    do {
      Numbers at = offsets;
      int64_t element = from;
      for (size_t a = 0; a < axes.size(); ++a) {
        at[axes[a].dim] += index[a] * axes[a].step;
        element += index[a] * axes[a].stride;
      }
      const std::byte* start = window.elements.data() + static_cast<uint64_t>(element) * bytes_of(t.dtype);
      scatter_box(to.tensor, at, sizes, {start, {strides.data(), t.rank}}, window.box_bytes);
    } while (next_index(index, outer, axes.size()));
  };
  if (window.whole) {
    AxisBox all;
    for (size_t a = 0; a < axes.size(); ++a) all.count[a] = axes[a].size;
    return scatter_cut(all);
  }
  std::vector<ViewAxis> places = axes;  // in the record, as if it were the one dim of a tensor
  for (ViewAxis& a : places) a = {.size = a.size, .step = a.stride};
  const int64_t begin = static_cast<int64_t>(window.first), count = static_cast<int64_t>(window.count);
  const auto at = static_cast<int64_t>(first);
  cut_axes(places, {&at, 1}, {{&begin, 1}, {&count, 1}}, scatter_cut);
}

// Works in parts for which memory was planned.
void Worker::scatter_box(uint32_t tensor, Numbers offsets, Numbers sizes, const Strided& elements, uint64_t max_bytes) {
  const auto& [from, strides] = elements;
  const DType dtype = catalog_.tensors[run_.plan.tensors[tensor].id].dtype;
  const size_t rank = strides.size();
  const auto element = bytes_of(dtype);
  const uint64_t bytes = volume({sizes.data(), rank}) * element;
  if (bytes > max_bytes) {
    const auto longest = static_cast<size_t>(std::max_element(sizes.begin(), sizes.begin() + static_cast<int64_t>(rank)) - sizes.begin());
    const int64_t half = sizes[longest] / 2;
    Numbers rest = sizes;
    rest[longest] -= half;
    sizes[longest] = half;
    scatter_box(tensor, offsets, sizes, elements, max_bytes);
    offsets[longest] += half;
    return scatter_box(tensor, offsets, rest, {from + half * strides[longest] * static_cast<int64_t>(element), strides}, max_bytes);
  }
  Assembly a{.box = {{offsets.data(), rank}, {sizes.data(), rank}}, .dtype = dtype, .strides = {}, .bytes = assembled_.first(bytes)};
  a.strides = row_major(a.box.sizes);
  copy_strided(a.bytes.data(), {a.strides.data(), rank}, from, strides, a.box.sizes, static_cast<unsigned>(element));
  a.bytes = cast_elements(tensor, a.bytes, bytes / element, dtype);
  scatter(tensor, a);
}

}  // namespace dcp
