// Boxes that tile a tensor: grids, nested splits, guillotine cuts, and pinwheels, which no straight cut divides.
#pragma once

#include <vector>

#include "catalog/build.h"
#include "catalog/made_checkpoint.h"

namespace dcp::test {

struct Box {
  Ints offsets;
  Ints sizes;
};

inline int64_t pick(Rng& rng, int64_t low, int64_t high) { return std::uniform_int_distribution<int64_t>(low, high)(rng); }

// Each dim cut into pieces, all combinations.
inline std::vector<Box> grid_tiling(const std::vector<Ints>& cuts) {
  std::vector<Box> boxes{{}};
  for (const Ints& pieces : cuts) {
    std::vector<Box> next;
    for (const Box& b : boxes) {
      int64_t at = 0;
      for (const int64_t n : pieces) {
        next.push_back(b);
        next.back().offsets.push_back(at);
        next.back().sizes.push_back(n);
        at += n;
      }
    }
    boxes = std::move(next);
  }
  return boxes;
}

inline Ints random_cuts(Rng& rng, int64_t size) {
  Ints pieces;
  while (size > 0) {
    pieces.push_back(pick(rng, 1, size));
    size -= pieces.back();
  }
  return pieces;
}

// Five boxes around a centre on the dims x and y: none of them is apart from the others by a straight cut. Both sizes at least 3.
inline std::vector<Box> pinwheel(Rng& rng, const Box& whole, size_t x, size_t y) {
  const int64_t w = whole.sizes[x], h = whole.sizes[y];
  const int64_t x1 = pick(rng, 1, w - 2), x2 = pick(rng, x1 + 1, w - 1);
  const int64_t y1 = pick(rng, 1, h - 2), y2 = pick(rng, y1 + 1, h - 1);
  std::vector<Box> boxes;
  const auto add = [&](int64_t left, int64_t right, int64_t top, int64_t bottom) {
    Box b = whole;
    b.offsets[x] += left, b.sizes[x] = right - left;
    b.offsets[y] += top, b.sizes[y] = bottom - top;
    boxes.push_back(b);
  };
  add(0, x2, 0, y1);
  add(x2, w, 0, y2);
  add(x1, w, y2, h);
  add(0, x1, y1, h);
  add(x1, x2, y1, y2);
  return boxes;
}

// Cuts a box in two, or into a pinwheel where that is possible and `pinwheels` allows it, and goes on in the parts.
inline void cut_further(Rng& rng, const Box& box, unsigned depth, bool pinwheels, std::vector<Box>& out) {
  std::vector<size_t> two, three;
  for (size_t d = 0; d < box.sizes.size(); ++d) {
    if (box.sizes[d] >= 2) two.push_back(d);
    if (box.sizes[d] >= 3) three.push_back(d);
  }
  if (depth == 0 || two.empty()) return out.push_back(box);
  if (pinwheels && three.size() >= 2 && rng() % 2 == 0) {
    std::ranges::shuffle(three, rng);
    for (const Box& b : pinwheel(rng, box, three[0], three[1])) cut_further(rng, b, depth - 1, true, out);
    return;
  }
  const size_t d = two[rng() % two.size()];
  Box low = box, high = box;
  low.sizes[d] = pick(rng, 1, box.sizes[d] - 1);
  high.offsets[d] += low.sizes[d];
  high.sizes[d] -= low.sizes[d];
  cut_further(rng, low, depth - 1, pinwheels, out);
  cut_further(rng, high, depth - 1, pinwheels, out);
}

// Any of these forms, in any order. Of a tensor without elements: one chunk.
inline std::vector<Box> random_tiling(Rng& rng, const Ints& dims) {
  const Box whole{Ints(dims.size(), 0), dims};
  std::vector<Box> boxes;
  const uint64_t form = volume(dims) == 0 ? 0 : rng() % 4;
  if (form == 0) {
    boxes.push_back(whole);
  } else if (form == 1) {
    std::vector<Ints> cuts;
    for (const int64_t n : dims) cuts.push_back(random_cuts(rng, n));
    boxes = grid_tiling(cuts);
  } else {
    cut_further(rng, whole, static_cast<unsigned>(rng() % 5), form == 3, boxes);
  }
  std::ranges::shuffle(boxes, rng);
  return boxes;
}

// One tensor in these boxes, which may overlap or leave holes: its items are nowhere.
inline Catalog tiled_catalog(const Ints& dims, const std::vector<Box>& boxes) {
  MadeCheckpoint made;
  made.tensors = {{.key = "t", .dtype = DType::uint8, .dims = dims, .chunks = {}}};
  for (const Box& b : boxes) {
    made.tensors[0].chunks.push_back({.offsets = b.offsets, .sizes = b.sizes});
    made.tensors[0].chunks.back().has_item = false;
  }
  return build_catalog(made.content(), "ckpt", "ckpt").catalog;
}

}  // namespace dcp::test
