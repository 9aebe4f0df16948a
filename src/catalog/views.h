// Chunks that are not boxes of their items. In a derived catalog (maps/derive.h), the elements of tensors lie in items of the source in a
// different order: a chunk is a view of an item, along axes that need not be the tensor's dims.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "catalog/box.h"

namespace dcp {

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
