// Boxes of a tensor: offsets and sizes, one number a dim, in elements of the global tensor.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace dcp {

using Dims = std::span<const int64_t>;

// Most dims a tensor can have: torch's own limit, and Limits::tensor_rank.
inline constexpr size_t kMaxRank = 64;
using Numbers = std::array<int64_t, kMaxRank>;  // one a dim

struct BoxView {
  Dims offsets;
  Dims sizes;
};

// Product of sizes; 1 for 0 dims. It cannot overflow: a tensor's element count is checked when the catalog is built, and a box inside its
// tensor has no more.
inline uint64_t volume(Dims sizes) {
  uint64_t v = 1;
  for (int64_t s : sizes) v *= static_cast<uint64_t>(s);
  return v;
}

// Strides, in elements, of a dense box with the last dim fastest.
inline Numbers row_major(Dims sizes) {
  Numbers strides{};
  int64_t stride = 1;
  for (size_t d = sizes.size(); d-- > 0; stride *= sizes[d]) strides[d] = stride;
  return strides;
}

// Writes the intersection. Returns false if it is empty (0-dim boxes always intersect).
inline bool intersect(BoxView a, BoxView b, int64_t* offsets, int64_t* sizes) {
  for (size_t d = 0; d < a.sizes.size(); ++d) {
    const int64_t lo = std::max(a.offsets[d], b.offsets[d]);
    const int64_t hi = std::min(a.offsets[d] + a.sizes[d], b.offsets[d] + b.sizes[d]);
    if (hi <= lo) return false;
    offsets[d] = lo;
    sizes[d] = hi - lo;
  }
  return true;
}

// Finds the boxes of a tensor that may cross a given box, without visiting all of them: a tensor over 1,024 ranks has 10^6 units.

// Boxes [first, last), sorted by offsets (lexicographic).
template <class OffsetsOf>
struct SortedBoxes {
  uint32_t first, last;
  const int64_t* reach;  // by dim: the largest extent of any box
  const OffsetsOf& offsets_of;
};

// Calls visit(n) for every box that crosses `box`, in order, and for a few others. Logarithmic for grids and for splits of one dim.
template <class OffsetsOf, class Visit>
void visit_overlaps(const SortedBoxes<OffsetsOf>& boxes, BoxView box, const Visit& visit, size_t d = 0) {
  const auto& [begin, last, reach, offsets_of] = boxes;
  uint32_t first = begin;
  if (d == box.sizes.size()) {
    for (uint32_t n = first; n < last; ++n) visit(n);
    return;
  }
  const auto offset = [&](uint32_t n) -> int64_t { return offsets_of(n)[d]; };
  // All boxes here agree on the dims before d. Visits those from the first that reaches the box up to the first that starts after it.
  for (uint32_t high = last; first < high;) {
    const uint32_t mid = first + (high - first) / 2;
    if (offset(mid) + reach[d] <= box.offsets[d]) first = mid + 1;
    else high = mid;
  }
  while (first < last && offset(first) < box.offsets[d] + box.sizes[d]) {
    // The run of boxes with the same offset; usually one, or all.
    uint32_t end = first + 1;
    if (end < last && offset(end) == offset(first))
      for (uint32_t high = last; end < high;) {
        const uint32_t mid = end + (high - end) / 2;
        if (offset(mid) == offset(first)) end = mid + 1;
        else high = mid;
      }
    if (end - first == 1) visit(first);
    else visit_overlaps(SortedBoxes<OffsetsOf>{first, end, reach, offsets_of}, box, visit, d + 1);
    first = end;
  }
}

// Chunks that are not boxes of their items. In a derived catalog (maps/derive.h), the elements of tensors lie in items of the source in a
// different order: a chunk is a view of an item, along axes that need not be the tensor's dims.

// One index along the axis moves `step` indices along `dim` of the tensor, and `stride` elements in the record.
struct ViewAxis {
  int64_t size = 1;
  int64_t step = 1;
  int64_t stride = 0;
  uint32_t dim = 0;
  bool operator==(const ViewAxis&) const = default;
};

// The chunk's box is the smallest one around its elements, which need not fill it: two views may interleave.
struct View {
  uint64_t first = 0;    // element of the record
  uint64_t axes_at = 0;  // in Views::axes
  uint32_t axis_count = 0;
};

struct Views {
  std::vector<View> of;                         // by ItemId; without axes: not a view, the chunk is an ordinary box
  std::vector<ViewAxis> axes;                   // within a view: by dim, then by descending step
  std::vector<uint32_t> record;                 // by ItemId: the first item that lies in the same record
  std::vector<bool> padded;                     // by TensorId: some chunks are zeros, which are in no file
  std::vector<bool> sharded;                    // by TensorId: made from a tensor that was saved in pieces
  bool any() const { return !padded.empty(); }  // the catalog is derived
  bool is_view(uint32_t item) const { return any() && of[item].axis_count > 0; }
  std::span<const ViewAxis> axes_of(const View& v) const { return std::span(axes).subspan(v.axes_at, v.axis_count); }
};

// A box of axes: count[n] indices of axis n, beginning at first[n].
struct AxisBox {
  Numbers first{}, count{};
};

// Cuts axes by a box. Along each dim d the elements lie at at[d] + the sum of index * step over the axes of that dim. Calls fn(AxisBox) for
// disjoint boxes of axes that together have the elements in `box`: at most 2k - 1 along a dim of k axes. Axes are ordered as in Views.
template <class Fn>
class AxisCutter {
 public:
  AxisCutter(std::span<const ViewAxis> axes, Dims at, BoxView box, const Fn& fn) : axes_(axes), at_(at), box_(box), fn_(fn) {}
  void cut() { dim(0, 0); }

 private:
  static int64_t ceil_div(int64_t a, int64_t b) { return a > 0 ? (a + b - 1) / b : -(-a / b); }

  void dim(size_t d, size_t axis) {
    if (d == at_.size()) fn_(cut_);
    else along(d, axis, at_[d]);
  }

  // The axes of `d` before `axis` have one index each; together these lead to `position`.
  void along(size_t d, size_t axis, int64_t position) {
    size_t end = axis;
    int64_t reach = 1;  // extent, in indices of `d`, of one index of `axis`
    for (; end < axes_.size() && axes_[end].dim == d; ++end)
      if (end > axis) reach += (axes_[end].size - 1) * axes_[end].step;
    const int64_t low = box_.offsets[d], high = low + box_.sizes[d];
    if (axis == end) {
      if (position >= low && position < high) dim(d + 1, end);
      return;
    }
    const auto [size, step, stride, of_dim] = axes_[axis];
    const int64_t begin = std::clamp<int64_t>(ceil_div(low - position - reach + 1, step), 0, size);
    const int64_t stop = std::clamp<int64_t>(ceil_div(high - position, step), begin, size);
    const int64_t whole = std::clamp(ceil_div(low - position, step), begin, stop);
    const int64_t whole_end = std::clamp(ceil_div(high - position - reach + 1, step), whole, stop);
    for (int64_t i = begin; i < whole; ++i) part(d, axis, i, position);
    if (whole < whole_end) {
      for (size_t a = axis; a < end; ++a) cut_.first[a] = 0, cut_.count[a] = axes_[a].size;
      cut_.first[axis] = whole;
      cut_.count[axis] = whole_end - whole;
      dim(d + 1, end);
    }
    for (int64_t i = whole_end; i < stop; ++i) part(d, axis, i, position);
  }
  void part(size_t d, size_t axis, int64_t index, int64_t position) {
    cut_.first[axis] = index;
    cut_.count[axis] = 1;
    along(d, axis + 1, position + index * axes_[axis].step);
  }

  std::span<const ViewAxis> axes_;
  Dims at_;
  BoxView box_;
  const Fn& fn_;
  AxisBox cut_;
};

template <class Fn>
void cut_axes(std::span<const ViewAxis> axes, Dims at, BoxView box, const Fn& fn) {
  AxisCutter<Fn>(axes, at, box, fn).cut();
}

}  // namespace dcp
