// copy_strided: the box is first brought into its simplest form, then copied plane by plane.
//
// Simplest form: dims of size 1 dropped, dims ordered by the target's strides (so that writes go forward, whatever the order of the
// dims), neighbours of equal step on both sides merged. A box that is dense on both sides becomes one memcpy, also when both are
// column-major. The two innermost dims that remain are a plane, and a plane is copied in one of three ways.
#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>

#include "kernels/kernels.h"

namespace dcp {
namespace {

constexpr size_t kMaxRank = 64;  // torch's own limit on dims

struct Dim {
  uint64_t size = 1;
  ptrdiff_t to = 0, from = 0;  // bytes
};

using CopyPlane = void (*)(std::byte* to, const std::byte* from, const Dim& outer, const Dim& inner);

// A fixed array: called once for each piece of a chunk, and pieces may be small.
struct Box {
  std::array<Dim, kMaxRank + 2> dims;
  size_t rank = 0;
  bool empty = false;
};

Box simplest(std::span<const int64_t> to, std::span<const int64_t> from, std::span<const int64_t> sizes, unsigned element_bytes) {
  Box box;
  const auto bytes = static_cast<ptrdiff_t>(element_bytes);
  for (size_t d = 0; d < sizes.size(); ++d) {
    if (sizes[d] == 0) box.empty = true;
    if (sizes[d] > 1) box.dims[box.rank++] = {static_cast<uint64_t>(sizes[d]), to[d] * bytes, from[d] * bytes};
  }
  const auto end = box.dims.begin() + static_cast<ptrdiff_t>(box.rank);
  std::stable_sort(box.dims.begin(), end, [](const Dim& a, const Dim& b) { return std::abs(a.to) > std::abs(b.to); });

  size_t kept = 0;
  for (size_t d = 0; d < box.rank; ++d) {
    const Dim& inner = box.dims[d];
    const auto n = static_cast<ptrdiff_t>(inner.size);
    if (kept > 0 && box.dims[kept - 1].to == inner.to * n && box.dims[kept - 1].from == inner.from * n) {
      box.dims[kept - 1] = {box.dims[kept - 1].size * inner.size, inner.to, inner.from};
    } else {
      box.dims[kept++] = inner;
    }
  }
  // Two dims at least, so that there is always a plane.
  std::rotate(box.dims.begin(), box.dims.begin() + static_cast<ptrdiff_t>(kept), box.dims.begin() + static_cast<ptrdiff_t>(kept + 2));
  box.dims[0] = box.dims[1] = Dim{};
  box.rank = kept + 2;
  return box;
}

// Rows that are dense on both sides; inner.size counts bytes.
void copy_runs(std::byte* to, const std::byte* from, const Dim& outer, const Dim& inner) {
  for (uint64_t i = 0; i < outer.size; ++i, to += outer.to, from += outer.from) std::memcpy(to, from, inner.size);
}

template <size_t kBytes>
void copy_elements(std::byte* to, const std::byte* from, const Dim& outer, const Dim& inner) {
  for (uint64_t i = 0; i < outer.size; ++i, to += outer.to, from += outer.from) {
    std::byte* t = to;
    const std::byte* f = from;
    for (uint64_t k = 0; k < inner.size; ++k, t += inner.to, f += inner.from) std::memcpy(t, f, kBytes);
  }
}

// The target is dense along `inner`, the source along `outer`: element by element, one side would touch a new cache line (and often a
// new page) for each element. Tiles of 4 to 16 KiB go through a buffer, so that each line is read and written once, in whole runs; and
// because the buffer is dense, power-of-two strides cannot push a tile out of its own cache sets.
template <size_t kBytes>
void copy_crossed(std::byte* to, const std::byte* from, const Dim& outer, const Dim& inner) {
  constexpr uint64_t kTile = kBytes == 1 ? 128 : kBytes <= 4 ? 64 : 32;
  alignas(64) std::array<std::byte, kTile * kTile * kBytes> tile;
  for (uint64_t i0 = 0; i0 < outer.size; i0 += kTile) {
    const uint64_t rows = std::min(kTile, outer.size - i0);
    for (uint64_t k0 = 0; k0 < inner.size; k0 += kTile) {
      const uint64_t columns = std::min(kTile, inner.size - k0);
      const std::byte* f = from + static_cast<ptrdiff_t>(i0) * outer.from + static_cast<ptrdiff_t>(k0) * inner.from;
      for (uint64_t k = 0; k < columns; ++k, f += inner.from) std::memcpy(&tile[k * kTile * kBytes], f, rows * kBytes);
      std::byte* t = to + static_cast<ptrdiff_t>(i0) * outer.to + static_cast<ptrdiff_t>(k0) * inner.to;
      for (uint64_t i = 0; i < rows; ++i, t += outer.to) {
        for (uint64_t k = 0; k < columns; ++k) std::memcpy(t + k * kBytes, &tile[(k * kTile + i) * kBytes], kBytes);
      }
    }
  }
}

struct Kernels {
  CopyPlane elements, crossed;
};

Kernels kernels_of(unsigned element_bytes) {
  switch (element_bytes) {
    case 1: return {copy_elements<1>, copy_crossed<1>};
    case 2: return {copy_elements<2>, copy_crossed<2>};
    case 4: return {copy_elements<4>, copy_crossed<4>};
    case 8: return {copy_elements<8>, copy_crossed<8>};
    default: return {copy_elements<16>, copy_crossed<16>};
  }
}

// Chooses how planes are copied, and arranges the two innermost dims for it.
CopyPlane choose(Box& box, unsigned element_bytes) {
  const auto bytes = static_cast<ptrdiff_t>(element_bytes);
  Dim& inner = box.dims[box.rank - 1];
  if (inner.size == 1 || (inner.to == bytes && inner.from == bytes)) {
    inner.size *= element_bytes;
    return copy_runs;
  }
  // Below a handful of rows or columns the lines of both sides stay in the cache by themselves.
  constexpr uint64_t kWorthTiles = 8;
  const Kernels kernels = kernels_of(element_bytes);
  for (size_t d = 0; d + 1 < box.rank; ++d) {
    Dim& outer = box.dims[d];
    if (inner.to == bytes && outer.from == bytes && inner.size >= kWorthTiles && outer.size >= kWorthTiles) {
      std::swap(outer, box.dims[box.rank - 2]);
      return kernels.crossed;
    }
  }
  return kernels.elements;
}

}  // namespace

void copy_strided(std::byte* to, std::span<const int64_t> to_strides, const std::byte* from, std::span<const int64_t> from_strides,
                  std::span<const int64_t> sizes, unsigned element_bytes) {
  Box box = simplest(to_strides, from_strides, sizes, element_bytes);
  if (box.empty) return;
  const CopyPlane copy_plane = choose(box, element_bytes);
  const size_t loops = box.rank - 2;
  const Dim &outer = box.dims[loops], &inner = box.dims[loops + 1];

  std::array<uint64_t, kMaxRank> at{};
  for (;;) {
    copy_plane(to, from, outer, inner);
    size_t d = loops;
    while (d > 0) {  // one step of the odometer over the outer dims
      const Dim& dim = box.dims[d - 1];
      if (++at[d - 1] < dim.size) {
        to += dim.to;
        from += dim.from;
        break;
      }
      at[d - 1] = 0;
      to -= static_cast<ptrdiff_t>(dim.size - 1) * dim.to;
      from -= static_cast<ptrdiff_t>(dim.size - 1) * dim.from;
      --d;
    }
    if (d == 0) return;
  }
}

}  // namespace dcp
