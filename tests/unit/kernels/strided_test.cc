// Against the obvious loop over all elements.
#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <cstring>
#include <numeric>
#include <random>
#include <vector>

#include "base/bytes.h"
#include "kernels/kernels.h"

using namespace dcp;

namespace {

using Dims = std::vector<int64_t>;
using Data = std::vector<std::byte>;

void copy_plainly(std::byte* to, const Dims& to_strides, const std::byte* from, const Dims& from_strides, const Dims& sizes, int64_t bytes,
                  size_t dim = 0) {
  if (dim == sizes.size()) {
    std::memcpy(to, from, static_cast<size_t>(bytes));
    return;
  }
  for (int64_t i = 0; i < sizes[dim]; ++i) {
    copy_plainly(to + i * to_strides[dim] * bytes, to_strides, from + i * from_strides[dim] * bytes, from_strides, sizes, bytes, dim + 1);
  }
}

Data numbered(size_t bytes) {
  Data data(bytes);
  for (size_t i = 0; i < bytes; ++i) data[i] = static_cast<std::byte>(i * 2654435761U >> 7);
  return data;
}

// Strides of a box whose dims lie in memory in `order` (outermost first), with room for `gap` further elements in each dim.
Dims strides_of(const Dims& sizes, const std::vector<size_t>& order, int64_t gap) {
  Dims strides(sizes.size());
  int64_t step = 1;
  for (size_t i = order.size(); i-- > 0;) {
    strides[order[i]] = step;
    step *= sizes[order[i]] + gap;
  }
  return strides;
}

size_t reach(const Dims& sizes, const Dims& strides) {
  int64_t last = 0;
  for (size_t d = 0; d < sizes.size(); ++d) last += std::max<int64_t>(sizes[d] - 1, 0) * strides[d];
  return static_cast<size_t>(last + 1);
}

bool agrees(const Dims& sizes, const Dims& to_strides, const Dims& from_strides, unsigned bytes) {
  const Data from = numbered(reach(sizes, from_strides) * bytes);
  Data to(reach(sizes, to_strides) * bytes, std::byte{0xEE}), expected = to;
  copy_strided(to.data(), to_strides, from.data(), from_strides, sizes, bytes);
  copy_plainly(expected.data(), to_strides, from.data(), from_strides, sizes, bytes);
  return to == expected;  // the gaps between elements included
}

}  // namespace

TEST_CASE("random boxes are copied as the plain loop copies them") {
  const uint64_t seed = std::random_device{}();
  INFO("seed " << seed);
  std::mt19937_64 random(seed);
  const auto below = [&](uint64_t n) { return random() % n; };
  for (int round = 0; round < 4000; ++round) {
    const size_t rank = below(6);
    const unsigned bytes = 1U << below(5);
    Dims sizes(rank);
    int64_t room = 4000;
    for (int64_t& size : sizes) {
      size = static_cast<int64_t>(below(8) == 0 ? below(2) : 1 + below(static_cast<uint64_t>(std::max<int64_t>(room, 2)) / 2));
      if (below(2) == 0) size = std::min<int64_t>(size, 9);
      room /= std::max<int64_t>(size, 1);
    }
    std::vector<size_t> to_order(rank), from_order(rank);
    std::iota(to_order.begin(), to_order.end(), size_t{0});
    std::iota(from_order.begin(), from_order.end(), size_t{0});
    if (below(2) == 0) std::shuffle(to_order.begin(), to_order.end(), random);
    if (below(2) == 0) std::shuffle(from_order.begin(), from_order.end(), random);
    const Dims to_strides = strides_of(sizes, to_order, static_cast<int64_t>(below(3)));
    Dims from_strides = strides_of(sizes, from_order, static_cast<int64_t>(below(3)));
    if (rank > 0 && below(8) == 0) from_strides[below(rank)] = 0;  // an expanded tensor
    REQUIRE(agrees(sizes, to_strides, from_strides, bytes));
  }
}

TEST_CASE("crossed strides go through tiles, whole and cut ones") {
  for (const unsigned bytes : {1U, 2U, 4U, 8U, 16U}) {
    for (const int64_t rows : {8, 31, 64, 129, 200, 513, 1030}) {
      for (const int64_t columns : {8, 32, 65, 128, 257}) {
        INFO(bytes << " bytes, " << rows << " x " << columns);
        CHECK(agrees({rows, columns}, {columns, 1}, {1, rows}, bytes));
        CHECK(agrees({rows, columns}, {columns + 3, 1}, {1, rows + 5}, bytes));
      }
    }
    CHECK(agrees({3, 20, 2, 30}, {1200, 60, 30, 1}, {1, 3, 60, 120}, bytes));
    CHECK(agrees({20, 3, 30}, {90, 30, 1}, {1, 600, 20}, bytes));
  }
}

TEST_CASE("a scalar and an empty box") {
  CHECK(agrees({}, {}, {}, 4));
  CHECK(agrees({1, 1}, {7, 9}, {0, 0}, 16));
  copy_strided(nullptr, Dims{1, 1}, nullptr, Dims{1, 1}, Dims{5, 0}, 4);
}

TEST_CASE("backward strides") {
  const Data from = numbered(12 * 4);
  Data to(from.size());
  copy_strided(to.data(), Dims{4, 1}, from.data() + 11 * 4, Dims{-4, -1}, Dims{3, 4}, 4);
  for (size_t i = 0; i < 12; ++i) REQUIRE(load_le<uint32_t>(&to[4 * i]) == load_le<uint32_t>(&from[4 * (11 - i)]));
}

TEST_CASE("as many dims as torch has") {
  Dims sizes(64, 1), to_strides(64, 1), from_strides(64, 1);
  for (size_t d = 0; d < 12; ++d) {
    sizes[5 * d] = 2;
    to_strides[5 * d] = int64_t{1} << d;
    from_strides[5 * d] = int64_t{1} << (11 - d);
  }
  CHECK(agrees(sizes, to_strides, from_strides, 2));
}
