// Do chunks tile their tensor? Against a count of every element, over tilings of every form and tilings spoiled in every way.
#include "catalog/cover.h"

#include <catch2/catch_test_macros.hpp>

#include "catalog/build.h"
#include "catalog/made_model.h"
#include "catalog/tilings.h"

using namespace dcp;
using namespace dcp::test;

namespace {

// How many chunks each element is in.
std::vector<unsigned> counted(const Ints& dims, const std::vector<Box>& boxes) {
  std::vector<unsigned> times(volume(dims), 0);
  const Ints strides = row_major_strides(dims);
  for (const Box& b : boxes) {
    for_each_index(b.sizes, [&](const Ints& index) {
      int64_t at = 0;
      for (size_t d = 0; d < dims.size(); ++d) at += (b.offsets[d] + index[d]) * strides[d];
      ++times.at(static_cast<size_t>(at));
    });
  }
  return times;
}

// The verdict must be the count's, and the box that is named must show it.
void check_against_count(const Ints& dims, const std::vector<Box>& boxes) {
  const Catalog catalog = tiled_catalog(dims, boxes);
  const std::vector<unsigned> times = counted(dims, boxes);
  const std::optional<CoverProblem> problem = check_cover(catalog, catalog.tensors[0]);
  const bool whole = std::ranges::all_of(times, [](unsigned n) { return n == 1; });
  REQUIRE(problem.has_value() == !whole);
  if (!problem) return;
  REQUIRE(problem->fault != CoverFault::kTooComplex);
  REQUIRE(volume(problem->sizes) > 0);
  const std::vector<unsigned> named = counted(dims, {{problem->offsets, problem->sizes}});
  for (size_t i = 0; i < times.size(); ++i) {
    if (named[i] == 0) continue;
    if (problem->fault == CoverFault::kHole) REQUIRE(times[i] == 0);
    else REQUIRE(times[i] >= 2);
  }
  if (problem->fault != CoverFault::kOverlap) return;
  REQUIRE(problem->a != problem->b);
  int64_t offsets[8], sizes[8];
  const BoxView both{problem->offsets, problem->sizes};
  for (const uint32_t c : {problem->a, problem->b}) {
    REQUIRE(intersect(catalog.box(catalog.tensors[0], c), both, offsets, sizes));
    REQUIRE(std::ranges::equal(std::span(sizes, dims.size()), problem->sizes));
  }
}

Ints random_dims(Rng& rng) {
  Ints dims(rng() % 5);
  for (int64_t& n : dims) n = pick(rng, rng() % 20 == 0 ? 0 : 1, dims.size() < 3 ? 16 : 6);
  return dims;
}

}  // namespace

TEST_CASE("tilings of every form have no fault") {
  for (uint64_t seed = 1; seed <= 3000; ++seed) {
    CAPTURE(seed);
    Rng rng(seed);
    const Ints dims = random_dims(rng);
    const std::vector<Box> boxes = random_tiling(rng, dims);
    REQUIRE(std::ranges::all_of(counted(dims, boxes), [](unsigned n) { return n == 1; }));
    check_against_count(dims, boxes);
  }
}

TEST_CASE("a chunk that is missing, grown, shifted, or there twice is found") {
  for (uint64_t seed = 1; seed <= 4000; ++seed) {
    CAPTURE(seed);
    Rng rng(seed);
    const Ints dims = random_dims(rng);
    std::vector<Box> boxes = random_tiling(rng, dims);
    const size_t spoiled = rng() % boxes.size();
    Box& box = boxes[spoiled];
    const size_t d = dims.empty() ? 0 : rng() % dims.size();
    switch (dims.empty() ? rng() % 2 : rng() % 5) {
      case 0: boxes.erase(boxes.begin() + static_cast<int64_t>(spoiled)); break;
      case 1: boxes.push_back(box); break;
      case 2:  // shifted, which may leave a hole behind, an overlap before, or both; kept inside
        box.offsets[d] = pick(rng, 0, dims[d] - box.sizes[d]);
        break;
      case 3: box.sizes[d] = pick(rng, box.sizes[d], dims[d] - box.offsets[d]); break;
      default: box.sizes[d] = pick(rng, 0, box.sizes[d]); break;
    }
    check_against_count(dims, boxes);
  }
}

TEST_CASE("boxes at random") {
  for (uint64_t seed = 1; seed <= 2000; ++seed) {
    CAPTURE(seed);
    Rng rng(seed);
    const Ints dims = random_dims(rng);
    std::vector<Box> boxes(rng() % 12);
    for (Box& b : boxes) {
      for (const int64_t n : dims) {
        b.offsets.push_back(pick(rng, 0, n));
        b.sizes.push_back(pick(rng, 0, n - b.offsets.back()));
      }
    }
    check_against_count(dims, boxes);
  }
}

TEST_CASE("pinwheels in two and three dimensions") {
  for (uint64_t seed = 1; seed <= 300; ++seed) {
    CAPTURE(seed);
    Rng rng(seed);
    const Ints dims{9, 9, 9};
    std::vector<Box> boxes;
    for (const Box& b : pinwheel(rng, {{0, 0, 0}, dims}, seed % 3, (seed + 1) % 3))
      for (const Box& inner : std::ranges::min(b.sizes) >= 3 ? pinwheel(rng, b, (seed + 1) % 3, (seed + 2) % 3) : std::vector{b})
        boxes.push_back(inner);
    check_against_count(dims, boxes);
    boxes.erase(boxes.begin() + static_cast<int64_t>(rng() % boxes.size()));
    check_against_count(dims, boxes);
  }
}

TEST_CASE("what is named, in words") {
  const auto problem = [](const Ints& dims, const std::vector<Box>& boxes) {
    const Catalog catalog = tiled_catalog(dims, boxes);
    const auto found = check_cover(catalog, catalog.tensors[0]);
    if (!found) return std::string("whole");
    return (found->fault == CoverFault::kHole ? "hole " : "overlap ") + slice_text(found->offsets, found->sizes);
  };
  CHECK(problem({4, 4}, {{{0, 0}, {2, 4}}, {{2, 0}, {2, 2}}}) == "hole [2:4, 2:4]");
  CHECK(problem({4, 4}, {{{0, 0}, {3, 4}}, {{2, 0}, {2, 4}}}) == "overlap [2:3, 0:4]");
  CHECK(problem({4}, {}) == "hole [0:4]");
  CHECK(problem({}, {}) == "hole []");
  CHECK(problem({}, {{{}, {}}}) == "whole");
  CHECK(problem({}, {{{}, {}}, {{}, {}}}) == "overlap []");
  CHECK(problem({0, 3}, {}) == "whole");
  CHECK(problem({4}, {{{0}, {4}}, {{4}, {0}}, {{0}, {0}}}) == "whole");
}

TEST_CASE("many chunks take no squares: grids, irregular rows, nested cuts") {
  Rng rng(5);
  const Ints dims{1000, 1000};
  std::vector<Box> rows;  // each row cut elsewhere
  for (int64_t r = 0; r < 1000; ++r) {
    const int64_t at = pick(rng, 1, 998), next = pick(rng, at + 1, 999);
    for (const auto& [from, to] : {std::pair(int64_t{0}, at), {at, next}, {next, int64_t{1000}}})
      rows.push_back({{r, from}, {1, to - from}});
  }
  std::vector<Box> columns = rows;  // the same the other way round: no run of equal rows
  for (Box& b : columns) std::swap(b.offsets[0], b.offsets[1]), std::swap(b.sizes[0], b.sizes[1]);
  std::vector<Box> nested;
  cut_further(rng, {{0, 0}, dims}, 12, true, nested);
  CHECK(nested.size() > 1000);
  for (std::vector<Box>& boxes : {std::ref(rows), std::ref(columns), std::ref(nested)}) {
    Catalog catalog = tiled_catalog(dims, boxes);
    CHECK_FALSE(check_cover(catalog, catalog.tensors[0]).has_value());
    boxes.erase(boxes.begin() + static_cast<int64_t>(boxes.size() / 3));
    catalog = tiled_catalog(dims, boxes);
    const auto problem = check_cover(catalog, catalog.tensors[0]);
    REQUIRE(problem.has_value());
    CHECK(problem->fault == CoverFault::kHole);
  }
}

TEST_CASE("large irregular tilings of three and four dims are not given up") {
  for (const Ints& dims : {Ints{200, 200, 200}, Ints{40, 40, 40, 40}}) {
    Rng rng(6);
    std::vector<Box> boxes;
    cut_further(rng, {Ints(dims.size(), 0), dims}, 10, true, boxes);
    std::ranges::shuffle(boxes, rng);
    CHECK(boxes.size() > 3000);
    Catalog catalog = tiled_catalog(dims, boxes);
    CHECK_FALSE(check_cover(catalog, catalog.tensors[0]).has_value());
    --boxes[boxes.size() / 2].sizes[1];
    if (boxes[boxes.size() / 2].sizes[1] == 0) boxes.erase(boxes.begin() + static_cast<int64_t>(boxes.size() / 2));
    catalog = tiled_catalog(dims, boxes);
    const auto problem = check_cover(catalog, catalog.tensors[0]);
    REQUIRE(problem.has_value());
    CHECK(problem->fault == CoverFault::kHole);
  }
}

TEST_CASE("boxes that cross each other thousands of times are given up or refused, and soon") {
  // Bars along both dims: 500 x 500 crossings.
  const Ints dims{1000, 1000};
  std::vector<Box> boxes;
  for (int64_t i = 0; i < 1000; i += 2) {
    boxes.push_back({{i, 0}, {1, 1000}});
    boxes.push_back({{0, i}, {1000, 1}});
  }
  const Catalog catalog = tiled_catalog(dims, boxes);
  CHECK(check_cover(catalog, catalog.tensors[0]).has_value());
}
