// Boxes of placements: tables of cases that torch gave, and the tiling of random ones.
#include "catalog/placements.h"

#include <catch2/catch_test_macros.hpp>

#include "base/error_line.h"
#include "catalog/made_model.h"

using namespace dcp;
using namespace dcp::test;

namespace {

Mesh mesh_of(std::vector<uint32_t> sizes) {
  Mesh mesh;
  mesh.sizes = std::move(sizes);
  return mesh;
}

RankBoxes boxes_of(const Mesh& mesh, std::string_view placements, const Ints& dims) {
  RankBoxes boxes;
  REQUIRE(place_ranks(mesh, parse_placements(placements, mesh), dims, boxes));
  return boxes;
}

// Offset and size on dim 0 by rank.
using Rows = std::vector<std::pair<int64_t, int64_t>>;
Rows rows_of(const Mesh& mesh, std::string_view placements, int64_t rows) {
  const RankBoxes boxes = boxes_of(mesh, placements, {rows});
  Rows out;
  for (size_t n = 0; n < boxes.rank_of.size(); ++n) {
    REQUIRE(boxes.rank_of[n] == n);
    out.emplace_back(boxes.numbers[2 * n], boxes.numbers[2 * n + 1]);
  }
  return out;
}

}  // namespace

TEST_CASE("placements are parsed") {
  using Kind = Placement::Kind;
  const Mesh one = parse_mesh("4", ""), three = parse_mesh("2x1x4", "pp,dp,tp");
  CHECK(parse_placements("shard(0)", one) == std::vector<Placement>{{Kind::kShard, 0}});
  CHECK(parse_placements("strided(0), shard(-1) ,replicate", three) ==
        std::vector<Placement>{{Kind::kStrided, 0}, {Kind::kShard, -1}, {Kind::kReplicate, 0}});
  CHECK(parse_placements("tp:shard(1), pp:strided(0)", three) ==
        std::vector<Placement>{{Kind::kStrided, 0}, {Kind::kReplicate, 0}, {Kind::kShard, 1}});
  CHECK(parse_placements("[Shard( 0 ), Shard(dim= -1), Replicate()]", three) == parse_placements("shard(0),shard(-1),replicate", three));
  CHECK(parse_placements("Shard(0), Shard(dim=-1), Replicate()", three) ==
        std::vector<Placement>{{Kind::kShard, 0}, {Kind::kShard, -1}, {Kind::kReplicate, 0}});
  CHECK(fitting(parse_placements("shard(1),shard(-1),shard(-2)", three), 1) ==
        std::vector<Placement>{{Kind::kReplicate, 0}, {Kind::kShard, -1}, {Kind::kReplicate, 0}});
  for (const char* wrong : {"", "shard", "shard()", "shard(x)", "shard(0", "shard(dim=)", "shard(0),", "partial", "replicate(0)",
                            "shard(0x)", "shard(0),shard(0)", "tp:shard(0)"}) {
    CAPTURE(wrong);
    CHECK(error_id([&] { parse_placements(wrong, one); }) == "usage");
  }
  for (const char* wrong : {"cp:shard(0)", "tp:shard(0),replicate", "tp:shard(0),tp:shard(1)", "tp:", "shard(0)"}) {
    CAPTURE(wrong);
    CHECK(error_id([&] { parse_placements(wrong, three); }) == "usage");
  }
}

TEST_CASE("meshes are parsed") {
  CHECK(parse_mesh("2x1x4", "").sizes == std::vector<uint32_t>{2, 1, 4});
  CHECK(parse_mesh("256x256", "").ranks() == kMaxRanks);
  CHECK(parse_mesh("2x4", "dp, tp").names == std::vector<std::string>{"dp", "tp"});
  for (const char* wrong : {"", "0", "2x", "x2", "2x0", "2*4", "-2", "256x257", "65536x65536x65536x65536x2", "4294967297"}) {
    CAPTURE(wrong);
    CHECK(error_id([&] { parse_mesh(wrong, ""); }) == "usage");
  }
  for (const char* wrong : {"dp", "dp,dp", "dp,", ",", "dp,tp,pp"}) {
    CAPTURE(wrong);
    CHECK(error_id([&] { parse_mesh("2x4", wrong); }) == "usage");
  }
}

TEST_CASE("rows as torch deals them") {
  CHECK(rows_of(mesh_of({4}), "shard(0)", 10) == Rows{{0, 3}, {3, 3}, {6, 3}, {9, 1}});
  CHECK(rows_of(mesh_of({4}), "shard(0)", 5) == Rows{{0, 2}, {2, 2}, {4, 1}, {5, 0}});
  CHECK(rows_of(mesh_of({3}), "shard(0)", 2) == Rows{{0, 1}, {1, 1}, {2, 0}});
  CHECK(rows_of(mesh_of({3}), "shard(0)", 0) == Rows{{0, 0}, {0, 0}, {0, 0}});
  CHECK(rows_of(mesh_of({2, 2}), "shard(0),shard(0)", 9) == Rows{{0, 3}, {3, 2}, {5, 2}, {7, 2}});
  CHECK(rows_of(mesh_of({2, 2}), "strided(0),shard(0)", 10) == Rows{{0, 3}, {5, 3}, {3, 2}, {8, 2}});
  CHECK(rows_of(mesh_of({2, 2}), "replicate,shard(0)", 3) == Rows{{0, 2}, {2, 1}, {0, 2}, {2, 1}});
  CHECK(rows_of(mesh_of({2, 2}), "shard(0),replicate", 3) == Rows{{0, 2}, {0, 2}, {2, 1}, {2, 1}});
  CHECK(rows_of(mesh_of({2}), "strided(0)", 3) == Rows{{0, 2}, {2, 1}});
}

TEST_CASE("two dims, and a corner where nothing is left") {
  const RankBoxes boxes = boxes_of(mesh_of({2, 2}), "shard(0),shard(1)", {1, 1});
  CHECK(boxes.numbers == Ints{0, 0, 1, 1, 0, 1, 1, 0, 1, 0, 0, 1, 1, 1, 0, 0});
  RankBoxes none;
  CHECK_FALSE(place_ranks(mesh_of({2}), parse_placements("shard(2)", mesh_of({2})), Ints{4, 4}, none));
  CHECK_FALSE(place_ranks(mesh_of({2}), parse_placements("shard(-3)", mesh_of({2})), Ints{4, 4}, none));
  CHECK_FALSE(place_ranks(mesh_of({2}), parse_placements("shard(0)", mesh_of({2})), Ints{}, none));
  CHECK(none.rank_of.empty());
  CHECK(boxes_of(mesh_of({2}), "replicate", {}).rank_of == std::vector<uint32_t>{0, 1});
}

TEST_CASE("every element lies in the boxes of as many ranks as replicate says") {
  for (uint64_t seed = 1; seed <= 2000; ++seed) {
    CAPTURE(seed);
    std::mt19937_64 rng(seed);
    Mesh mesh;
    std::vector<Placement> placements;
    Ints dims(1 + rng() % 3);
    for (int64_t& n : dims) n = static_cast<int64_t>(rng() % 12);
    uint64_t copies = 1;
    for (uint64_t m = 0, count = 1 + rng() % 3; m < count; ++m) {
      mesh.sizes.push_back(static_cast<uint32_t>(1 + rng() % 4));
      placements.push_back({static_cast<Placement::Kind>(rng() % 3), static_cast<int64_t>(rng() % dims.size())});
      if (placements.back().kind == Placement::Kind::kReplicate) copies *= mesh.sizes.back();
    }
    RankBoxes boxes;
    REQUIRE(place_ranks(mesh, placements, dims, boxes));
    std::vector<uint64_t> times(volume(dims), 0);
    const auto strides = [&](const Ints& index) {
      int64_t at = 0;
      for (size_t d = 0; d < index.size(); ++d) at = at * dims[d] + index[d];
      return static_cast<size_t>(at);
    };
    for (size_t n = 0; n < boxes.rank_of.size(); ++n) {
      const BoxView box = boxes.box(n, dims.size());
      for_each_index(Ints(box.sizes.begin(), box.sizes.end()), [&](Ints index) {
        for (size_t d = 0; d < index.size(); ++d) index[d] += box.offsets[d];
        ++times.at(strides(index));
      });
    }
    REQUIRE(std::ranges::all_of(times, [&](uint64_t n) { return n == copies; }));
  }
}
