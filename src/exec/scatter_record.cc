// The unit of a transformed record with views: it is decoded once for all of them, and scattered while it is decoded.
#include <algorithm>

#include "exec/worker.h"
#include "kernels/kernels.h"

namespace dcp {

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
