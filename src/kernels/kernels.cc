#include "kernels/kernels.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <type_traits>
#include <utility>

#include "base/machine.h"

namespace dcp {

Isa best_isa() {
#ifdef DCPCTL_X86_LEVELS
  if (x86_features().v4) return Isa::kAvx512;
  if (x86_features().v3) return Isa::kAvx2;
#endif
  return Isa::kBaseline;
}

// copy_strided: the box is first brought into its simplest form, then copied plane by plane.
//
// Simplest form: dims of size 1 dropped, dims ordered by the target's strides (so that writes go forward, whatever the order of the
// dims), neighbours of equal step on both sides merged. A box that is dense on both sides becomes one memcpy, also when both are
// column-major. The two innermost dims that remain are a plane, and a plane is copied in one of three ways.

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

// 16 bytes of elements.
template <size_t kBytes>
struct Lanes;
template <>
struct Lanes<1> {
  typedef uint8_t Vector __attribute__((vector_size(16)));
};
template <>
struct Lanes<2> {
  typedef uint16_t Vector __attribute__((vector_size(16)));
};
template <>
struct Lanes<4> {
  typedef uint32_t Vector __attribute__((vector_size(16)));
};
template <>
struct Lanes<8> {
  typedef uint64_t Vector __attribute__((vector_size(16)));
};

// The first or the last halves of both, their elements in turns.
template <size_t kFrom, class V, size_t... kAt>
V interleave(V a, V b, std::index_sequence<kAt...>) {
  return __builtin_shufflevector(a, b, (kFrom + kAt / 2 + kAt % 2 * sizeof...(kAt))...);
}

// A square of elements whose rows are 16 bytes, in registers: taking rows i and i + n/2 in turns log2(n) times is the transpose.
// Unrolled at any level of optimisation: a row that is not in a register makes it three times as slow.
template <size_t kBytes>
void transpose(std::byte* to, ptrdiff_t to_step, const std::byte* from, ptrdiff_t from_step) {
  using V = typename Lanes<kBytes>::Vector;
  constexpr size_t n = 16 / kBytes;
  constexpr auto lanes = std::make_index_sequence<n>();
  V rows[n], turned[n];
#pragma GCC unroll 16
  for (size_t i = 0; i < n; ++i) std::memcpy(&rows[i], from + static_cast<ptrdiff_t>(i) * from_step, 16);
#pragma GCC unroll 4
  for (size_t round = 1; round < n; round *= 2) {
#pragma GCC unroll 8
    for (size_t i = 0; i < n / 2; ++i) {
      turned[2 * i] = interleave<0>(rows[i], rows[i + n / 2], lanes);
      turned[2 * i + 1] = interleave<n / 2>(rows[i], rows[i + n / 2], lanes);
    }
    std::memcpy(rows, turned, sizeof rows);
  }
#pragma GCC unroll 16
  for (size_t i = 0; i < n; ++i) std::memcpy(to + static_cast<ptrdiff_t>(i) * to_step, &rows[i], 16);
}

// The target is dense along `inner`, the source along `outer`: element by element, one side would touch a new cache line (and often a
// new page) for each element. Squares are turned in registers, into a tile that holds a line of each of the target's rows: so the source is
// read along its rows, which is what the processor fetches ahead, and a line of the target is touched once, also where the rows are a power
// of two apart and the cache holds only a few of their lines at a time.
template <size_t kBytes>
void copy_crossed(std::byte* to, const std::byte* from, const Dim& outer, const Dim& inner) {
  constexpr uint64_t kLine = 64, kRows = 512, kColumns = kLine / kBytes, kSquare = 16 / kBytes;
  alignas(kLine) std::array<std::byte, kRows * kLine> tile;
  for (uint64_t i0 = 0; i0 < outer.size; i0 += kRows) {
    const uint64_t rows = std::min(kRows, outer.size - i0), whole_rows = kSquare > 1 ? rows - rows % kSquare : 0;
    for (uint64_t k0 = 0; k0 < inner.size; k0 += kColumns) {
      const uint64_t columns = std::min(kColumns, inner.size - k0), whole_columns = columns - columns % kSquare;
      const auto from_at = [&](uint64_t i, uint64_t k) { return from + static_cast<ptrdiff_t>(k0 + k) * inner.from + (i0 + i) * kBytes; };
      const auto tile_at = [&](uint64_t i, uint64_t k) { return tile.data() + i * kLine + k * kBytes; };
      if constexpr (kSquare > 1)
        for (uint64_t k = 0; k < whole_columns; k += kSquare)
          for (uint64_t i = 0; i < whole_rows; i += kSquare) transpose<kBytes>(tile_at(i, k), kLine, from_at(i, k), inner.from);
      for (uint64_t k = 0; k < columns; ++k)
        for (uint64_t i = k < whole_columns ? whole_rows : 0; i < rows; ++i) std::memcpy(tile_at(i, k), from_at(i, k), kBytes);
      std::byte* row = to + static_cast<ptrdiff_t>(i0) * outer.to + k0 * kBytes;
      if (columns == kColumns)
        for (uint64_t i = 0; i < rows; ++i, row += outer.to) std::memcpy(row, tile_at(i, 0), kLine);
      else
        for (uint64_t i = 0; i < rows; ++i, row += outer.to) std::memcpy(row, tile_at(i, 0), columns * kBytes);
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

// Byte order and signs, in place.

namespace {

template <class Word, class Change>
void change_each(std::byte* data, uint64_t words, Change change) {
  for (uint64_t i = 0; i < words; ++i, data += sizeof(Word)) {
    Word word;
    std::memcpy(&word, data, sizeof word);
    word = change(word);
    std::memcpy(data, &word, sizeof word);
  }
}

// Calls f with an unsigned integer of that width.
template <class F>
void with_word(unsigned bytes, F f) {
  switch (bytes) {
    case 1: return f(uint8_t{});
    case 2: return f(uint16_t{});
    case 4: return f(uint32_t{});
    default: return f(uint64_t{});
  }
}

template <class Word>
constexpr Word kTopBit = static_cast<Word>(Word{1} << (8 * sizeof(Word) - 1));

void flip_top_bits(std::byte* data, uint64_t words, unsigned word_bytes) {
  with_word(word_bytes, [&](auto zero) {
    using Word = decltype(zero);
    change_each<Word>(data, words, [](Word word) { return static_cast<Word>(word ^ kTopBit<Word>); });
  });
}

}  // namespace

void swap_bytes(std::byte* data, uint64_t units, unsigned unit_bytes) {
  switch (unit_bytes) {
    case 2: return change_each<uint16_t>(data, units, [](uint16_t w) { return __builtin_bswap16(w); });
    case 4: return change_each<uint32_t>(data, units, [](uint32_t w) { return __builtin_bswap32(w); });
    case 8: return change_each<uint64_t>(data, units, [](uint64_t w) { return __builtin_bswap64(w); });
    default: return;  // a single byte has no order
  }
}

// The imaginary part is the upper half of an element, so its sign is the element's top bit.
void conjugate(std::byte* data, uint64_t elements, DType dtype) {
  if (facts_of(dtype).kind != DTypeKind::kComplex) return;
  const auto bytes = static_cast<unsigned>(bytes_of(dtype));
  if (bytes < 16) return flip_top_bits(data, elements, bytes);
  for (uint64_t i = 0; i < elements; ++i, data += bytes) data[bytes - 1] ^= std::byte{0x80};
}

// bool, e8m0, packed and quantized values have no sign and are left alone. torch refuses to negate them.
void negate(std::byte* data, uint64_t elements, DType dtype) {
  const unsigned unit = swap_unit(dtype);
  switch (facts_of(dtype).kind) {
    case DTypeKind::kFloat:
      if (dtype == DType::float8_e4m3fnuz || dtype == DType::float8_e5m2fnuz) {
        // There is only one zero, and 0x80 is the NaN: neither has a sign to change.
        return change_each<uint8_t>(data, elements, [](uint8_t x) { return static_cast<uint8_t>((x & 0x7F) == 0 ? x : x ^ 0x80); });
      }
      return flip_top_bits(data, elements, unit);
    case DTypeKind::kComplex: return flip_top_bits(data, 2 * elements, unit);
    case DTypeKind::kInt:
      return with_word(unit, [&](auto zero) {
        using Word = decltype(zero);
        change_each<Word>(data, elements, [](Word word) { return static_cast<Word>(Word{0} - word); });
      });
    default: return;
  }
}

}  // namespace dcp
