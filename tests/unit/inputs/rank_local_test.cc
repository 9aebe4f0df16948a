// Rank-local metadata: what two ranks say of one key, and the proof that what both wrote is the same.
#include "inputs/rank_local.h"

#include <catch2/catch_test_macros.hpp>

#include "base/error_line.h"
#include "catalog/made_blobs.h"
#include "catalog/structure.h"
#include "inputs/open.h"
#include "items/duplicates.h"

using namespace dcp;
using namespace dcp::test;

namespace {

const std::string kSixteen = "0123456789abcdef";

// Row pair `rank` of `w`, and what every rank has: the tensor `b` and the object `step`.
MadeCheckpoint of_rank(unsigned rank) {
  MadeCheckpoint made;
  made.seed = rank + 1;
  made.tensors = {
      {.key = "w", .dtype = DType::float32, .dims = {4, 2}, .chunks = {{.offsets = {2 * rank, 0}, .sizes = {2, 2}, .file = rank}}},
      {.key = "b", .dtype = DType::float32, .dims = {4}, .chunks = {whole_chunk({4})}}};
  made.tensors[1].chunks[0].file = rank;
  made.tensors[1].chunks[0].storage = kSixteen;
  made.blobs = {number_blob("step", 3)};
  made.blobs[0].file = rank;
  return made;
}

struct TwoRanks {
  MadeCheckpoint rank[2] = {of_rank(0), of_rank(1)};
  FakeIo io;

  FrozenCatalog open(std::optional<uint32_t> prefer = std::nullopt) {
    for (const unsigned r : {0u, 1u}) {
      const std::string from = "rank" + std::to_string(r), data = "/" + MadeCheckpoint::file_name(r);
      rank[r].put(io, from);
      io.put("ckpt" + data, io.text_of(from + data));
      io.put("ckpt/__" + std::to_string(r) + ".metadata", io.text_of(from + "/.metadata"));
    }
    return open_checkpoint(io, "ckpt", {.prefer_rank = prefer});
  }
  std::string proof() {
    const FrozenCatalog opened = open();
    const Catalog& c = opened->catalog;
    DataFiles files(io, c, FollowLinks::kCacheOnly);
    return error_line([&] {
      const Resolved resolved = resolve(files, std::vector<TensorId>{0, 1}, std::vector<BlobId>{0}, {}, StopFlag{0});
      prove_duplicates({c, resolved}, contents_of(files, c, {}));
    });
  }
  MadeChunk& b(unsigned r) { return rank[r].tensors[1].chunks[0]; }
};

const std::string kDiffer = "two ranks wrote different values for one key: a value different from that in ckpt/__0_0.distcp";

}  // namespace

TEST_CASE("the ranks' chunks together are the tensor, and what several wrote is there once") {
  TwoRanks two;
  const FrozenCatalog opened = two.open();
  const Catalog& c = opened->catalog;
  CHECK(c.kind == CheckpointKind::kDcpRankLocal);
  REQUIRE(c.tensors.size() == 2);
  CHECK(c.tensors[0].chunk_count == 2);
  CHECK(c.tensors[1].chunk_count == 1);
  CHECK(c.blobs.size() == 1);
  CHECK(c.duplicates.size() == 2);
  CHECK(c.file_name(c.items[c.item_of(c.tensors[1], 0)].file) == "__0_0.distcp");
  CHECK_NOTHROW(check_whole(c, c.tensors[0]));
  const FrozenCatalog other = two.open(1);
  const Catalog& preferred = other->catalog;
  CHECK(preferred.file_name(preferred.items[preferred.item_of(preferred.tensors[1], 0)].file) == "__1_0.distcp");
  CHECK(error_id([&] { two.open(7); }) == "usage");
}

TEST_CASE("equal copies are proven equal, by their CRCs or by their bytes") {
  CHECK(TwoRanks().proof() == "no error");
  TwoRanks bytes;
  bytes.b(0).crc = bytes.b(1).crc = false;
  CHECK(bytes.proof() == "no error");
  TwoRanks one_crc;
  one_crc.b(1).crc = false;
  CHECK(one_crc.proof() == "no error");
  TwoRanks packed;
  packed.b(0).zstd = packed.b(1).zstd = true;
  CHECK(packed.proof() == "no error");
}

TEST_CASE("copies that differ are named, whatever shows it") {
  const auto differs = [](auto change) {
    TwoRanks two;
    change(two);
    return two.proof().ends_with("tensor 'b': " + kDiffer);
  };
  CHECK(differs([](TwoRanks& t) { t.b(1).storage[5] = '?'; }));
  CHECK(differs([](TwoRanks& t) {
    t.b(1).storage[5] = '?';
    t.b(0).crc = t.b(1).crc = false;
  }));
  CHECK(differs([](TwoRanks& t) {
    t.b(1).storage[5] = '?';
    t.b(0).zstd = t.b(1).zstd = true;
  }));
  CHECK(differs([](TwoRanks& t) { t.b(1).zstd = true; }));  // another transform cannot be compared
  CHECK(differs([](TwoRanks& t) { t.b(1).neg = true; }));   // equal bytes that mean other values
  CHECK(differs([](TwoRanks& t) { t.b(1).stored = DType::int32; }));
  CHECK(differs([](TwoRanks& t) { t.b(1).big_endian = true; }));
  CHECK(differs([](TwoRanks& t) {
    t.b(1).storage_offset = 1;
    t.b(1).storage = "0123" + kSixteen;
  }));

  TwoRanks object;
  object.rank[1].blobs[0] = number_blob("step", 4);
  object.rank[1].blobs[0].file = 1;
  CHECK(object.proof().ends_with("object 'step': " + kDiffer));
}

TEST_CASE("only what is selected must be proven; a copy past the end of its file is no copy") {
  TwoRanks two;
  two.b(1).storage[5] = '?';
  const FrozenCatalog opened = two.open();
  const Catalog& c = opened->catalog;
  DataFiles files(two.io, c, FollowLinks::kCacheOnly);
  const Resolved resolved = resolve(files, std::vector<TensorId>{0}, {}, {}, StopFlag{0});
  CHECK_NOTHROW(prove_duplicates({c, resolved}, contents_of(files, c, {})));

  TwoRanks cut;
  const FrozenCatalog whole = cut.open();
  DataFiles cut_files(cut.io, whole->catalog, FollowLinks::kCacheOnly);
  const Resolved all = resolve(cut_files, std::vector<TensorId>{0, 1}, std::vector<BlobId>{0}, {}, StopFlag{0});
  std::vector<FileLook> found = look_at_files(cut.io, whole->catalog, FollowLinks::kCacheOnly);
  found[whole->catalog.duplicates[0].other.file].bytes = 10;
  const FrozenCatalog shorter = freeze(read_checkpoint(cut.io, "ckpt", {}), found);
  CHECK(error_id([&] { prove_duplicates({shorter->catalog, all}, contents_of(cut_files, shorter->catalog, {})); }) == "item_past_end");
}

TEST_CASE("ranks that describe a key differently") {
  const auto says = [](auto change) {
    TwoRanks two;
    change(two.rank[1]);
    const FrozenCatalog opened = two.open();
    CHECK(opened->findings.size() == 1);
    return to_line(opened->findings.at(0));
  };
  const std::string differently = "two ranks describe a key differently: ";
  CHECK(says([](MadeCheckpoint& m) { m.tensors[1].dtype = DType::float16; }) == "ckpt: tensor 'b': " + differently + "float32 and float16");
  CHECK(says([](MadeCheckpoint& m) { m.tensors[0].dims = {5, 2}; }) == "ckpt: tensor 'w': " + differently + "two shapes");
  CHECK(says([](MadeCheckpoint& m) {
          m.blobs[0].key = "b";
          m.tensors.pop_back();
        }) == "ckpt: tensor 'b': " + differently + "a tensor on one rank, an object on another");
}
