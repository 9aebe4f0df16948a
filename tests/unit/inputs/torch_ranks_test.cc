// Files of ranks, as verl and SkyRL write them: which boxes the parts are, and what is said where they do not fit together.
#include <catch2/catch_test_macros.hpp>

#include "base/error_line.h"
#include "base/limits.h"
#include "catalog/placements.h"
#include "catalog/structure.h"
#include "inputs/made_ranks.h"

using namespace dcp;
using namespace dcp::test;

namespace {

using Texts = std::vector<std::string>;

// Each chunk of tensor `t`: its rows, and the file that they are in.
std::string boxes(const Catalog& c, const Tensor& t) {
  std::string text;
  for (uint32_t n = 0; n < t.chunk_count; ++n) {
    const BoxView box = c.box(t, n);
    text += std::to_string(box.offsets[0]) + "+" + std::to_string(box.sizes[0]) + "@" +
            std::string(c.file_name(c.items[c.item_of(t, n)].file)).substr(std::string("model_world_size_4_").size()) + " ";
  }
  return text;
}
std::string boxes(const std::vector<MadePart>& parts) {
  FakeIo io;
  put_model(io, "ckpt", parts);
  const FrozenCatalog opened = open_checkpoint(io, "ckpt", {});
  CHECK(structure_findings(*opened).empty());
  REQUIRE(opened->catalog.tensors.size() == 1);
  return boxes(opened->catalog, opened->catalog.tensors[0]);
}

Texts damage(FakeIo& io) {
  Texts lines;
  for (const Problem& p : structure_findings(*open_checkpoint(io, "ckpt", {}))) lines.push_back(to_line(p));
  return lines;
}
Texts damage(const std::vector<MadePart>& parts) {
  FakeIo io;
  put_model(io, "ckpt", parts);
  return damage(io);
}

}  // namespace

TEST_CASE("the mesh's coordinates say which rows each rank has") {
  CHECK(boxes({{6, 3, {0}}, {6, 3, {1}}}) == "0+3@rank_0.pt 3+3@rank_1.pt ");
  CHECK(boxes({{5, 2, {0}}, {5, 2, {1}}, {5, 1, {2}}}) == "0+2@rank_0.pt 2+2@rank_1.pt 4+1@rank_2.pt ");
  CHECK(boxes({{1, 1, {0}}, {1, 0, {1}}}) == "0+1@rank_0.pt 1+0@rank_1.pt ");
  CHECK(boxes({{7, 7, {0}}}) == "0+7@rank_0.pt ");
  CHECK(boxes({{4, 2, {0, 0}}, {4, 2, {0, 1}}, {4, 2, {1, 0}}, {4, 2, {1, 1}}}) == "0+2@rank_0.pt 2+2@rank_1.pt ");
  CHECK(boxes({{4, 2, {0}}, {4, 2, {1}}, {4, 2, {0}}, {4, 2, {1}}}) == "0+2@rank_0.pt 2+2@rank_1.pt ");  // two meshes of two
}

TEST_CASE("two ranks at one place of the mesh") {
  const std::string said = ": tensor 'model.w': two ranks claim the same place in the mesh (got [";
  CHECK(damage({{4, 2, {0}}, {4, 2, {0}}}) ==
        Texts{"ckpt/model_world_size_2_rank_1.pt" + said + "0], where model_world_size_2_rank_0.pt is, expected a place of its own)"});
  CHECK(damage({{8, 2, {0}}, {8, 2, {1}}, {8, 2, {1}}, {8, 2, {3}}}) ==
        Texts{"ckpt/model_world_size_4_rank_2.pt" + said + "1], where model_world_size_4_rank_1.pt is, expected a place of its own)"});
  CHECK(damage({{4, 2, {0, 0}}, {4, 2, {0, 1}}, {4, 2, {1, 0}}, {4, 2, {0, 1}}}) ==
        Texts{"ckpt/model_world_size_4_rank_3.pt" + said + "0, 1], where model_world_size_4_rank_1.pt is, expected a place of its own)"});
}

TEST_CASE("a key that one rank lacks") {
  for (const size_t lacking : {0u, 1u, 3u}) {
    FakeIo io;
    for (size_t r = 0; r < 4; ++r) {
      const std::string path = "ckpt/" + name_of_rank(r, 4);
      if (r == lacking) put_object(io, path, 1);
      else put_part(io, path, {8, 2, {static_cast<int64_t>(r)}});
    }
    INFO(lacking);
    CHECK(damage(io) == Texts{"ckpt/" + name_of_rank(lacking, 4) +
                              ": tensor 'model.w': the file of a rank lacks its part of a tensor that other ranks have"});
  }
}

TEST_CASE("a key that only the ranks of one stage have is whole") {
  FakeIo io;
  for (size_t r = 0; r < 4; ++r) put_part(io, "ckpt/" + name_of_rank(r, 4), {6, 3, {static_cast<int64_t>(r % 2)}}, r < 2 ? "a" : "b");
  CHECK(damage(io).empty());
  const Catalog c = read_checkpoint(io, "ckpt", {}).catalog;
  CHECK(c.tensors.size() == 2);
  CHECK(world_size_shown(c) == 4);
}

TEST_CASE("what ranks describe differently is one finding, of that key") {
  CHECK(damage({{4, 2, {0}}, {5, 2, {1}}}) == Texts{"ckpt: tensor 'model.w': two ranks describe a key differently: two shapes"});
  CHECK(damage({{4, 2, {0}}, {4, 2, {0, 1}}}) ==
        Texts{"ckpt: tensor 'model.w': two ranks describe a key differently: two lists of placements"});
}

TEST_CASE("a mesh of more ranks than there can be") {
  const std::string said = error_line([] { damage({{4, 2, {0, 0, 0, 0}}, {4, 2, {65535, 65535, 65535, 65535}}}); });
  CHECK(said.find("model.w") != std::string::npos);
}

TEST_CASE("files of one world, each rank once") {
  const auto said = [](const Texts& names) {
    FakeIo io;
    for (const std::string& name : names) put_object(io, "ckpt/" + name, 1);
    return error_line([&] { read_checkpoint(io, "ckpt", {}); });
  };
  CHECK(said({name_of_rank(0, 1)}) == "no error");
  CHECK(said({name_of_rank(0, 17)}) == "no error");
  CHECK(said({name_of_rank(0, 18)}) == "ckpt/model_world_size_18_rank_1.pt: a data file of the checkpoint is missing");
  CHECK(said({name_of_rank(0, 1, "optim")}) == "ckpt/model_world_size_1_rank_0.pt: a data file of the checkpoint is missing");
  CHECK(said({name_of_rank(0, 1), "model_world_size_1_rank_00.pt"}) ==
        "ckpt: is not a checkpoint (got model_world_size_1_rank_00.pt beside model_world_size_1_rank_0.pt, expected one file of rank 0)");
  CHECK(said({name_of_rank(0, 1), name_of_rank(0, 2)}) ==
        "ckpt: is not a checkpoint (got model_world_size_2_rank_0.pt beside model_world_size_1_rank_0.pt, expected files of one save)");
}

TEST_CASE("a file that is missing or cut is damage of what others have in its place") {
  FakeIo io;
  for (size_t r = 0; r < 2; ++r) put_object(io, "ckpt/" + name_of_rank(r, 3), 1);
  for (size_t r = 0; r < 3; ++r) put_object(io, "ckpt/" + name_of_rank(r, 3, "optim"), 1);
  io.put("ckpt/" + name_of_rank(1, 3, "optim"), "PK");
  const std::vector<Problem> findings = read_checkpoint(io, "ckpt", {}).findings;
  REQUIRE(findings.size() == 2);
  CHECK(findings[0].place.path == "ckpt/optim_world_size_3_rank_1.pt");
  CHECK(findings[0].keys == Texts{"optim.n"});
  CHECK(findings[1].id == ProblemId::file_missing);
  CHECK(findings[1].place.path == "ckpt/model_world_size_3_rank_2.pt");
  CHECK(findings[1].keys == Texts{"model.n"});
  for (const Problem& p : findings) CHECK(p.severity == Severity::kDamage);
}

TEST_CASE("what is private to a rank is under its number, what all have is there once") {
  FakeIo io;
  for (size_t r = 0; r < 2; ++r) {
    put_object(io, "ckpt/" + name_of_rank(r, 2), 1);
    put_object(io, "ckpt/" + name_of_rank(r, 2, "extra_state"), static_cast<int64_t>(r));
  }
  const Catalog c = read_checkpoint(io, "ckpt", {}).catalog;
  CHECK(c.kind == CheckpointKind::kTorchRanks);
  Texts keys;
  for (const Blob& b : c.blobs) keys.emplace_back(c.key(b));
  CHECK(keys == Texts{"extra_state.rank_0.n", "extra_state.rank_1.n", "model.n"});
  CHECK(c.duplicates.size() == 1);
  CHECK(c.file_name(c.items[c.item_of(BlobId{2})].file) == name_of_rank(0, 2));
  const Catalog other = read_checkpoint(io, "ckpt", {.limits = {}, .prefer_rank = 1}).catalog;
  CHECK(other.file_name(other.items[other.item_of(BlobId{2})].file) == name_of_rank(1, 2));
  CHECK(error_id([&] { read_checkpoint(io, "ckpt", {.limits = {}, .prefer_rank = 2}); }) == "usage");
}

TEST_CASE("plain tensors that differ are kept for each rank") {
  FakeIo io;
  for (size_t r = 0; r < 2; ++r) {
    put_object(io, "ckpt/" + name_of_rank(r, 2), 1);
    Made m;
    m.dict().key("flat").floats(2, "0").end_dict();
    put_file(io, "ckpt/" + name_of_rank(r, 2, "optim"), m, r == 0 ? "01234567" : "abcdefgh");
  }
  const OpenedCatalog opened = read_checkpoint(io, "ckpt", {});
  REQUIRE(opened.findings.size() == 1);
  CHECK(opened.findings[0].id == ProblemId::ranks_kept_apart);
  Texts keys;
  for (const Tensor& t : opened.catalog.tensors) keys.emplace_back(opened.catalog.key(t));
  CHECK(keys == Texts{"optim.rank_0.flat", "optim.rank_1.flat"});
}

TEST_CASE("plain tensors are joined where something says whether they are parts") {
  FakeIo io;
  for (size_t r = 0; r < 2; ++r) {
    Made m;
    m.dict().key("w").floats(2, "0").end_dict();
    put_file(io, "ckpt/" + name_of_rank(r, 2), m, "01234567");
  }
  const auto read = [&](OpenOptions options) {
    options.shards_on_dim = 0;
    return read_checkpoint(io, "ckpt", options);
  };
  const OpenedCatalog unclear = read({});
  REQUIRE(unclear.findings.size() == 1);
  CHECK(unclear.findings[0].id == ProblemId::shards_equal);
  CHECK(unclear.findings[0].keys == Texts{"model.w"});
  CHECK(unclear.catalog.tensors[0].chunk_count == 0);
  const auto rows = [&](const OpenedCatalog& opened) {
    const Catalog& c = opened.catalog;
    return std::pair(c.dims(c.tensors[0])[0], c.tensors[0].chunk_count);
  };
  CHECK(rows(read({.whole_shapes = {{"model.w", {2}}}})) == std::pair<int64_t, uint32_t>(2, 1));
  CHECK(rows(read({.replicated = {"*w"}})) == std::pair<int64_t, uint32_t>(2, 1));
  const OpenedCatalog joined = read({.prefer_rank = 1, .whole_shapes = {{"model.w", {4}}}});
  CHECK(rows(joined) == std::pair<int64_t, uint32_t>(4, 2));
  CHECK(boxes(joined.catalog, joined.catalog.tensors[0]) == "0+2@rank_0.pt 2+2@rank_1.pt ");
  CHECK(error_id([&] { read({.replicated = {"model.v"}}); }) == "usage");
}
