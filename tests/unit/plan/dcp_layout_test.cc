// The layout of DCP folders: which boxes, on which ranks.
#include "plan/dcp_layout.h"

#include <catch2/catch_test_macros.hpp>

#include "base/error_line.h"
#include "catalog/made_blobs.h"
#include "catalog/tilings.h"
#include "plan/opened.h"

using namespace dcp;
using namespace dcp::test;

namespace {

MadeTensor tensor_of(const std::string& key, const Ints& dims, const std::vector<Box>& boxes) {
  MadeTensor t{.key = key, .dtype = DType::float32, .dims = dims, .chunks = {}};
  unsigned file = 0;
  for (const Box& b : boxes) t.chunks.push_back({.offsets = b.offsets, .sizes = b.sizes, .file = file++});
  return t;
}
MadeTensor whole(const std::string& key, const Ints& dims) { return tensor_of(key, dims, {{Ints(dims.size(), 0), dims}}); }
MadeTensor halves(const std::string& key, int64_t rows) {
  return tensor_of(key, {rows, 2}, grid_tiling({{rows / 2, rows - rows / 2}, {2}}));
}

struct Laid {
  explicit Laid(std::vector<MadeTensor> tensors, const DcpLayoutOptions& options, const std::string& path = "ckpt") {
    MadeCheckpoint made;
    made.tensors = std::move(tensors);
    made.put(io, path);
    opened.emplace(io, path);
    plan = plan_dcp({opened->catalog, opened->resolved}, opened->selection, options);
  }
  // "0: 0,0+3,2 | 1: ..." of a tensor's regions: rank, offsets, sizes.
  std::string boxes(uint32_t tensor = 0) const {
    const PlanTensor& p = plan.tensors.at(tensor);
    std::string text;
    const auto list = [&](Dims numbers) {
      for (size_t d = 0; d < numbers.size(); ++d) text += (d ? "," : "") + std::to_string(numbers[d]);
    };
    for (uint32_t r = p.first_region; r < p.first_region + p.region_count; ++r) {
      text += (text.empty() ? "" : " | ") + std::to_string(plan.regions[r].file) + ": ";
      list(plan.box(plan.regions[r]).offsets);
      text += "+";
      list(plan.box(plan.regions[r]).sizes);
    }
    return text;
  }
  FakeIo io;
  std::optional<Opened> opened;
  Plan plan;
};

DcpLayoutOptions on(uint32_t world) { return {.limits = {}, .units = {}, .world_size = world, .mesh = {}, .rules = {}}; }
DcpLayoutOptions placed(Mesh mesh, std::vector<PlacementRule> rules) {
  const auto world = static_cast<uint32_t>(mesh.ranks());
  return {.limits = {}, .units = {}, .world_size = world, .mesh = std::move(mesh), .rules = std::move(rules)};
}

}  // namespace

TEST_CASE("the default layout splits what is sharded, and all where nothing is") {
  const Laid sharded({halves("w", 8), whole("buffer", {6})}, on(3));
  CHECK(sharded.boxes(0) == "0: 0,0+3,2 | 1: 3,0+3,2 | 2: 6,0+2,2");
  CHECK(sharded.boxes(1) == "0: 0+6");  // whole; items of 16 and of 24 bytes are padded to the same length
  const Laid plain({whole("w", {8, 2}), whole("step", {}), whole("none", {0, 3})}, on(3));
  CHECK(plain.boxes(0) == "0: 0,0+3,2 | 1: 3,0+3,2 | 2: 6,0+2,2");
  CHECK(plain.boxes(1) == "0: +");
  CHECK(plain.boxes(2) == "1: 0,0+0,3");
  CHECK(Laid({halves("w", 8)}, on(1)).boxes() == "0: 0,0+8,2");
  // torch lists one empty chunk, however many ranks have one.
  CHECK(Laid({halves("w", 2)}, on(5)).boxes() == "0: 0,0+1,2 | 1: 1,0+1,2 | 2: 2,0+0,2");
  CHECK(Laid({halves("w", 6)}, on(4)).boxes() == "0: 0,0+2,2 | 1: 2,0+2,2 | 2: 4,0+2,2 | 3: 6,0+0,2");
}

TEST_CASE("an empty chunk in the source means that the tensor is sharded") {
  MadeTensor t = tensor_of("w", {1, 2}, {{{0, 0}, {1, 2}}, {{1, 0}, {0, 2}}});
  CHECK(Laid({t, whole("b", {4})}, on(2)).boxes(0) == "0: 0,0+1,2 | 1: 1,0+0,2");
}

TEST_CASE("rules by final names, the first match wins; one copy of what is replicated, dealt out evenly") {
  const Mesh mesh = parse_mesh("2x2", "");
  const DcpLayoutOptions options = placed(mesh, {{"w*", parse_placements("shard(0),shard(1)", mesh)},
                                                 {"nothing", parse_placements("shard(0),replicate", mesh)},
                                                 {"*", parse_placements("replicate,shard(0)", mesh)}});
  const Laid laid({whole("w1", {4, 4}), whole("x", {400, 1}), whole("y", {400, 1})}, options);
  CHECK(laid.boxes(0) == "0: 0,0+2,2 | 1: 0,2+2,2 | 2: 2,0+2,2 | 3: 2,2+2,2");
  CHECK(laid.boxes(1) == "0: 0,0+200,1 | 1: 200,0+200,1");
  CHECK(laid.boxes(2) == "2: 0,0+200,1 | 3: 200,0+200,1");
  CHECK(laid.plan.dcp->unmatched_placements == std::vector<std::string>{"nothing"});
  CHECK(laid.plan.dcp->replicated.empty());
  const Mesh two = parse_mesh("2", "");
  const auto wrong = [&] { Laid({whole("bias", {4})}, placed(two, {{"*", parse_placements("shard(1)", two)}})); };
  CHECK(error_id(wrong) == "placement_no_dim");
}

TEST_CASE("a rule for a dict is for all below it") {
  const Mesh mesh = parse_mesh("2", "");
  const Laid laid({whole("m.a.w", {4}), whole("m.ab", {4}), whole("m.x", {4})},
                  placed(mesh, {{"m.a", parse_placements("shard(0)", mesh)}, {"*", parse_placements("replicate", mesh)}}));
  CHECK(laid.boxes(0) == "0: 0+2 | 1: 2+2");
  CHECK(laid.plan.tensors[1].region_count == 1);
  CHECK(laid.plan.dcp->unmatched_placements.empty());
}

TEST_CASE("a glob that places matrices replicates what has no such dim, and says so; one that fits nothing is refused") {
  const Mesh mesh = parse_mesh("2x2", "");
  const Laid laid({whole("w", {4, 4}), whole("bias", {4}), whole("step", {})},
                  placed(mesh, {{"*", parse_placements("shard(0),shard(1)", mesh)}}));
  CHECK(laid.boxes(0) == "0: 0,0+2,2 | 1: 0,2+2,2 | 2: 2,0+2,2 | 3: 2,2+2,2");
  CHECK(laid.plan.regions[laid.plan.tensors[1].first_region].rank == 1);
  CHECK(laid.plan.tensors[1].region_count == 2);  // split over the first mesh dim, one copy along the second
  CHECK(laid.plan.tensors[2].region_count == 1);
  REQUIRE(laid.plan.dcp->replicated.size() == 2);
  CHECK(laid.plan.dcp->replicated[0].key == "bias");
  CHECK(laid.plan.dcp->replicated[1].text == "*");
  const auto exact = [&] {
    Laid({whole("w", {4, 4}), whole("bias", {4})}, placed(mesh, {{"bias", parse_placements("shard(1),replicate", mesh)}}));
  };
  CHECK(error_id(exact) == "placement_no_dim");
}

TEST_CASE("boxes and ranks of another checkpoint") {
  FakeIo io;
  MadeCheckpoint other;
  other.tensors = {tensor_of("w", {4, 4}, grid_tiling({{1, 3}, {4}})), whole("shape", {3}), tensor_of("hole", {4}, {{{0}, {3}}})};
  other.tensors[0].chunks[0].file = 1;
  other.tensors[0].chunks[1].file = 0;
  other.put(io, "other");
  const Catalog like = read_checkpoint(io, "other", {}).catalog;
  CHECK(ranks_shown(like) == 2);
  DcpLayoutOptions options = on(2);
  options.like = &like;
  const Laid laid({whole("w", {4, 4}), whole("shape", {4}), whole("more", {2})}, options);
  CHECK(laid.boxes(0) == "1: 0,0+1,4 | 0: 1,0+3,4");
  CHECK(laid.boxes(1) == "0: 0+2 | 1: 2+2");
  REQUIRE(laid.plan.dcp->default_layout.size() == 2);
  CHECK(laid.plan.dcp->default_layout[0].key == "shape");
  CHECK(laid.plan.dcp->default_layout[1].text == "the other checkpoint has no such tensor");
  CHECK(error_id([&] { Laid({whole("hole", {4})}, options); }) == "like_not_whole");
}

TEST_CASE("ranks in file names") {
  CHECK(rank_of_file("__12_3.distcp") == 12u);
  CHECK(rank_of_file("__0_0.distcp") == 0u);
  for (const char* name : {"", "__", "__x_0.distcp", "_1_0.distcp", "__1.metadata", "x.bin", "__99999999999_0"})
    CHECK_FALSE(rank_of_file(name));
}

TEST_CASE("two keys that become one") {
  FakeIo io;
  MadeCheckpoint made;
  made.tensors = {whole("a.b", {1}), whole("c", {1})};
  made.put(io, "ckpt");
  CHECK(error_id([&] {
          const Opened opened(io, "ckpt", {.rename_map = {{"c", "a.b"}}});
          plan_dcp({opened.catalog, opened.resolved}, opened.selection, on(2));
        }) == "keys_collide");
}
