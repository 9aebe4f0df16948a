#include <catch2/catch_test_macros.hpp>
#include <map>
#include <random>

#include "catalog/box.h"

using namespace dcp;

namespace {

using Index = std::vector<int64_t>;

// fn(index of each axis) for each in a box of axes.
template <class Fn>
void each_index(const AxisBox& box, size_t axes, const Fn& fn) {
  Index index(axes, 0);
  for (;;) {
    Index at(axes);
    for (size_t a = 0; a < axes; ++a) at[a] = box.first[a] + index[a];
    fn(at);
    size_t a = axes;
    while (a > 0 && ++index[a - 1] == box.count[a - 1]) index[--a] = 0;
    if (a == 0) return;
  }
}

}  // namespace

TEST_CASE("what a box cuts of axes is all that lies in it, in few boxes") {
  for (uint64_t seed = 1; seed <= 2000; ++seed) {
    CAPTURE(seed);
    std::mt19937_64 rng(seed);
    const auto pick = [&](int64_t low, int64_t high) { return std::uniform_int_distribution<int64_t>(low, high)(rng); };
    const auto rank = static_cast<uint32_t>(rng() % 4);
    std::vector<ViewAxis> axes;
    Index at, offsets, sizes;
    size_t most = 1;
    for (uint32_t d = 0; d < rank; ++d) {
      const size_t begin = axes.size(), count = rng() % 4;
      int64_t step = pick(1, 2);
      for (size_t a = 0; a < count; ++a) {
        axes.insert(axes.begin() + static_cast<int64_t>(begin), {.size = pick(1, 4), .step = step, .dim = d});
        step = step * axes[begin].size + pick(0, 2);  // sometimes with room between
      }
      most *= count == 0 ? 1 : 2 * count - 1;
      at.push_back(pick(0, 3));
      offsets.push_back(pick(0, 6));
      sizes.push_back(pick(1, 20));
    }
    std::map<Index, int> times;
    size_t boxes = 0;
    cut_axes(axes, at, BoxView{offsets, sizes}, [&](const AxisBox& box) {
      ++boxes;
      each_index(box, axes.size(), [&](const Index& index) { ++times[index]; });
    });
    CHECK(boxes <= most);
    AxisBox all;
    for (size_t a = 0; a < axes.size(); ++a) all.count[a] = axes[a].size;
    each_index(all, axes.size(), [&](const Index& index) {
      Index element = at;
      for (size_t a = 0; a < axes.size(); ++a) element[axes[a].dim] += index[a] * axes[a].step;
      bool inside = true;
      for (uint32_t d = 0; d < rank; ++d) inside = inside && element[d] >= offsets[d] && element[d] < offsets[d] + sizes[d];
      REQUIRE(times[index] == (inside ? 1 : 0));
    });
  }
}
