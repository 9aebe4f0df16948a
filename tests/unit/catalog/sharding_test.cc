#include <catch2/catch_test_macros.hpp>

#include "catalog/build.h"
#include "catalog/placements.h"
#include "catalog/tilings.h"

using namespace dcp;
using namespace dcp::test;

namespace {

std::string words(const Ints& dims, const std::vector<Box>& boxes) {
  const Catalog c = tiled_catalog(dims, boxes);
  return sharding_words(c, c.tensors[0]);
}
std::string grid(const std::vector<Ints>& cuts) {
  Ints dims;
  for (const Ints& pieces : cuts) {
    dims.push_back(0);
    for (const int64_t n : pieces) dims.back() += n;
  }
  return words(dims, grid_tiling(cuts));
}

}  // namespace

TEST_CASE("one chunk, or none") {
  CHECK(words({4, 4}, {}) == "no chunks");
  CHECK(words({4, 4}, {{{0, 0}, {4, 4}}}) == "whole");
  CHECK(words({}, {{{}, {}}}) == "whole");
  CHECK(words({0}, {{{0}, {0}}}) == "whole");
  CHECK(words({4, 4}, {{{0, 0}, {2, 4}}}) == "partial");
}

TEST_CASE("shards of one dim") {
  CHECK(grid({{2, 2}, {4}}) == "Shard(0) x2");
  CHECK(grid({{4}, {1, 1, 1, 1}}) == "Shard(1) x4");
  CHECK(grid({{3}, {4}, {5, 5}}) == "Shard(2) x2");
  CHECK(grid({{2, 2, 1}, {4}}) == "Shard(0) x3 uneven");
}

TEST_CASE("grids") {
  CHECK(grid({{2, 2}, {3, 3, 3}}) == "grid 2x3");
  CHECK(grid({{2, 1}, {3, 3}}) == "grid 2x2 uneven");
  CHECK(grid({{2, 2}, {4}, {1, 1}}) == "grid 2x1x2");
}

TEST_CASE("what is no grid") {
  CHECK(words({4, 4}, {{{0, 0}, {2, 2}}, {{0, 2}, {2, 2}}, {{2, 0}, {2, 1}}, {{2, 1}, {2, 3}}}) == "irregular x4");
  CHECK(words({4, 4}, {{{0, 0}, {2, 4}}, {{2, 0}, {2, 2}}}) == "irregular x2");
  CHECK(words({4}, {{{0}, {4}}, {{0}, {4}}}) == "irregular x2");  // there twice
}

TEST_CASE("empty chunks are shards of a parameter smaller than the world") {
  CHECK(words({2, 3}, {{{0, 0}, {1, 3}}, {{1, 0}, {1, 3}}, {{2, 0}, {0, 3}}}) == "Shard(0) x3 uneven");
  CHECK(words({1, 3}, {{{0, 0}, {1, 3}}, {{1, 0}, {0, 3}}, {{1, 0}, {0, 3}}}) == "Shard(0) x3 uneven");
  CHECK(words({3, 1}, {{{0, 0}, {3, 1}}, {{0, 1}, {3, 0}}}) == "Shard(1) x2 uneven");
  CHECK(words({0, 3}, {{{0, 0}, {0, 3}}, {{0, 0}, {0, 3}}}) == "irregular x2");  // nothing shows the dim
}

TEST_CASE("the world size is the most chunks of a tensor") {
  CHECK(world_size_shown(tiled_catalog({4}, {{{0}, {4}}})) == 0);
  CHECK(world_size_shown(tiled_catalog({4}, grid_tiling({{1, 1, 2}}))) == 3);
  CHECK(world_size_shown(tiled_catalog({4}, {})) == 0);
}
