// What planning learns about items, and in how few reads.
#include "items/resolve.h"

#include <catch2/catch_test_macros.hpp>

#include "base/error_line.h"
#include "base/seeds.h"
#include "catalog/build.h"
#include "catalog/made_blobs.h"
#include "catalog/random_checkpoint.h"
#include "catalog/structure.h"
#include "items/item_source.h"

using namespace dcp;
using namespace dcp::test;

namespace {

const StopFlag kGo{0};

struct Checkpoint {
  explicit Checkpoint(MadeCheckpoint made_, const std::vector<std::string>& transforms = {}) : made(std::move(made_)) {
    made.put(io, "ckpt");
    OpenedCatalog built = build_catalog(made.content(), "ckpt", "ckpt");
    if (!transforms.empty()) built.catalog.transforms[1] = transforms;
    opened = freeze(std::move(built), io, FollowLinks::kCacheOnly);
  }
  Resolved resolve(const ResolveOptions& options = {}) {
    std::vector<TensorId> tensors(catalog().tensors.size());
    std::vector<BlobId> blobs(catalog().blobs.size());
    for (TensorId t = 0; t < tensors.size(); ++t) tensors[t] = t;
    for (BlobId b = 0; b < blobs.size(); ++b) blobs[b] = b;
    DataFiles files(io, catalog(), FollowLinks::kCacheOnly);
    return dcp::resolve(files, tensors, blobs, options, kGo);
  }
  std::string refusal(const ResolveOptions& options = {}) {
    return error_line([&] { resolve(options); });
  }

  MadeCheckpoint made;
  FakeIo io;
  FrozenCatalog opened;

  const Catalog& catalog() const { return opened->catalog; }
};

MadeTensor tensor(const std::string& key, const Ints& dims, DType dtype = DType::uint8) {
  return {.key = key, .dtype = dtype, .dims = dims, .chunks = {whole_chunk(dims)}};
}
uint64_t reads(const FakeIo& io) { return io.calls(dcp::test::Op::kRead); }

}  // namespace

TEST_CASE("facts of items are what was stored, whatever the order of the items and the number of workers") {
  for (uint64_t seed = 1; seed <= seeds(200); ++seed) {
    CAPTURE(seed);
    Checkpoint c(random_checkpoint(seed));
    const Resolved r = c.resolve({.workers = 1 + static_cast<unsigned>(seed % 4)});
    for (TensorId t = 0; t < c.made.tensors.size(); ++t) {
      for (const MadeChunk& made : c.made.tensors[t].chunks) {
        const Tensor& tensor = c.catalog().tensors[t];
        uint32_t n = 0;
        while (!std::ranges::equal(c.catalog().box(tensor, n).offsets, made.offsets) ||
               !std::ranges::equal(c.catalog().box(tensor, n).sizes, made.sizes))
          ++n;
        const ItemInfo& info = r.items[c.catalog().item_of(tensor, n)];
        REQUIRE(info.resolved == (volume(made.sizes) > 0));
        if (!info.resolved) continue;
        const DType stored = made.stored.value_or(c.made.tensors[t].dtype);
        REQUIRE(info.dtype == stored);
        REQUIRE(info.record == made.payload);
        REQUIRE(info.record_bytes == made.storage.size());
        REQUIRE(info.has_crc == made.crc);
        if (made.crc) REQUIRE(info.crc == crc32(as_bytes(made.storage)));
        REQUIRE(info.swap == (made.big_endian && swap_unit(stored) > 1));
        REQUIRE(info.conj == made.conj);
        REQUIRE(info.neg == made.neg);
        if (info.strides_at == 0) {
          REQUIRE(made.storage_offset == 0);
          continue;
        }
        REQUIRE(r.strides[info.strides_at] == static_cast<int64_t>(made.storage_offset));
        const Ints strides = made.strides.empty() ? row_major_strides(made.sizes) : made.strides;
        REQUIRE(std::ranges::equal(std::span(r.strides).subspan(info.strides_at + 1, strides.size()), strides));
      }
    }
  }
}

TEST_CASE("strides of dims of size one mean nothing") {
  MadeTensor t = tensor("t", {1, 4, 1, 2});
  t.chunks[0].strides = {77, 2, 5, 1};
  CHECK(Checkpoint(checkpoint_of({t})).resolve().items[0].strides_at == 0);
  t.chunks[0].strides = {8, 1, 1, 4};
  CHECK(Checkpoint(checkpoint_of({t})).resolve().items[0].strides_at != 0);
}

TEST_CASE("many small items are read together") {
  std::vector<MadeTensor> tensors;
  for (int i = 0; i < 1000; ++i) tensors.push_back(tensor("t" + std::to_string(i), {500}));
  Checkpoint c(checkpoint_of(std::move(tensors)));
  const uint64_t before = reads(c.io), bytes = c.io.text_of("ckpt/__0_0.distcp").size();
  const Resolved r = c.resolve();
  CHECK(reads(c.io) - before <= 4 * 3);  // 1.5 MB in batches of 256 items and reads of 256 KiB
  CHECK(r.bytes_read <= bytes + 12 * 2000);
}

TEST_CASE("of large items only the ends are read, the tail of one with the head of the next") {
  std::vector<MadeTensor> tensors;
  for (int i = 0; i < 20; ++i) tensors.push_back(tensor("t" + std::to_string(i), {100000}));
  Checkpoint c(checkpoint_of(std::move(tensors)));
  const uint64_t before = reads(c.io);
  const Resolved r = c.resolve();
  CHECK(reads(c.io) - before == 21);
  CHECK(r.bytes_read <= 21 * 2048);
}

TEST_CASE("large and small items in turn, with gaps between them") {
  MadeCheckpoint made;
  made.shuffled = true;
  for (int i = 0; i < 60; ++i) made.tensors.push_back(tensor("t" + std::to_string(i), {i % 3 == 0 ? 90000 : 10 * i}));
  for (MadeTensor& t : made.tensors) t.chunks[0].file = static_cast<unsigned>(t.dims[0] % 2);
  Checkpoint c(std::move(made));
  const Resolved r = c.resolve();
  for (TensorId t = 0; t < 60; ++t)
    if (c.made.tensors[t].dims[0] > 0) CHECK(r.items[t].record == c.made.tensors[t].chunks[0].payload);
}

TEST_CASE("byte items and opaque tensors: pickles, and storages at their positions") {
  for (const bool zstd : {false, true}) {
    CAPTURE(zstd);
    Rng rng(1);
    MadeCheckpoint made;
    made.blobs = {nested_blob(rng, "b", {3, 4})};
    made.blobs[0].zstd = zstd;
    made.tensors = {{.key = "q", .dtype = DType::qint8, .dims = {9}, .chunks = {quantized_chunk(rng, 9)}}};
    made.tensors[0].chunks[0].zstd = zstd;
    Checkpoint c(std::move(made));
    const Resolved r = c.resolve();
    CHECK(r.items[0].opaque);
    REQUIRE(r.blobs.size() == 2);
    const std::string file = c.io.text_of("ckpt/__0_0.distcp");
    const auto bytes = [&](const ResolvedBlob& b, size_t i) {
      const BlobItem::Storage& s = b.item.storages.at(i);
      return std::string(zstd ? as_text(b.decoded) : std::string_view(file)).substr(s.payload, s.bytes);
    };
    CHECK(bytes(r.blobs.at(0), 0) == c.made.tensors[0].chunks[0].storage);
    CHECK(bytes(r.blobs.at(1), 1) == c.made.blobs[0].storages[1].bytes);
    CHECK(as_text(r.blobs.at(1).item.pickle) == c.made.blobs[0].pickle);
    CHECK(r.blobs.at(1).decoded.empty() != zstd);
  }
}

TEST_CASE("an item of another shape than its chunk") {
  MadeTensor t = tensor("t", {2, 3});
  PickleWriter out(t.chunks[0].pickle, PickleProtocol::k2);
  out.begin();
  write_view(out, {.dtype = DType::uint8, .storage_elements = 6, .sizes = {3, 2}, .strides = {2, 1}});
  out.end();
  CHECK(Checkpoint(checkpoint_of({t})).refusal() ==
        "ckpt/__0_0.distcp @ 0x0: tensor 't': the stored tensor's shape is not its chunk's (got [0:3, 0:2], expected [0:2, 0:3])");
}

TEST_CASE("a tensor that is not plain, of another shape or dtype than its chunk") {
  Rng rng(1);
  MadeTensor t{.key = "q", .dtype = DType::qint8, .dims = {5}, .chunks = {quantized_chunk(rng, 9)}};
  t.chunks[0].sizes = {5};
  CHECK(Checkpoint(checkpoint_of({t})).refusal() ==
        "ckpt/__0_0.distcp @ 0x0: tensor 'q': the stored tensor's shape is not its chunk's (got [0:9], expected [0:5])");
  Checkpoint other(checkpoint_of({{.key = "q", .dtype = DType::float32, .dims = {9}, .chunks = {quantized_chunk(rng, 9)}}}));
  CHECK(other.refusal() == "no error");  // a writer copies it as it is
  const std::vector<Problem> found = other.resolve({.faults = Faults::kCollect}).findings;
  REQUIRE(found.size() == 1);
  CHECK(found[0].id == ProblemId::dtype_not_convertible);
  CHECK(found[0].severity == Severity::kDamage);
}

TEST_CASE("an object with a storage that is not as long as its pickle says") {
  Rng rng(1);
  MadeCheckpoint made;
  made.blobs = {nested_blob(rng, "b", {3, 4})};
  made.blobs[0].storages[1].bytes.pop_back();
  Checkpoint c(std::move(made));
  for (const BlobUse use : {BlobUse::kPickles, BlobUse::kWhole})
    CHECK(c.refusal({.blobs = use}).ends_with("object 'b': the storage's record is shorter than the storage (got 15 bytes, expected 16)"));
  // Too little memory to run the pickle: nothing is known to be wrong.
  CHECK(c.refusal({.blobs = BlobUse::kWhole, .memory_bytes = 64}) == "no error");
  const std::vector<Problem> found = c.resolve({.faults = Faults::kCollect}).findings;
  REQUIRE(found.size() == 1);
  CHECK(found[0].id == ProblemId::item_short_storage);
}

TEST_CASE("transforms that are not known") {
  MadeTensor t = tensor("t", {5});
  t.chunks[0].zstd = true;
  const auto with = [&](const std::vector<std::string>& transforms) { return Checkpoint(checkpoint_of({t}), transforms).refusal(); };
  const std::string unknown = "ckpt/__0_0.distcp @ 0x0: tensor 't': the item is stored under a transform that is not known ";
  CHECK(with({"stream.lz4"}) == unknown + "(got stream.lz4, expected stream.zstd/1)");
  CHECK(with({"stream.zstd/1", "stream.lz4"}) == unknown + "(got stream.lz4, expected stream.zstd/1)");
  CHECK(with({"stream.zstd/1", "stream.zstd/1"}).find("the zstd stream is damaged") != std::string::npos);
  CHECK(with({"stream.zstd/1.2"}) == "no error");
  CHECK(with({"stream.zstd"}).find("transform") != std::string::npos);
  CHECK(with({"stream.zstd/11"}).find("transform") != std::string::npos);
}

TEST_CASE("a stream that holds far more than its tensor is not decoded to the end") {
  MadeTensor t = tensor("t", {5});
  t.chunks[0].zstd = true;
  t.chunks[0].extra_elements = 20 << 20;
  t.chunks[0].storage = std::string(5 + (20 << 20), '\0');
  CHECK(Checkpoint(checkpoint_of({t})).refusal().ends_with("tensor 't': the zstd stream holds more bytes than belong there"));
  Rng rng(2);
  MadeCheckpoint made;
  made.blobs = {nested_blob(rng, "b", {1000})};
  made.blobs[0].zstd = true;
  Limits limits;
  limits.blob_bytes = 2000;
  Checkpoint blob(std::move(made));
  CHECK(blob.refusal({.limits = limits}).find("bytes that holds more, expected at most 2000)") != std::string::npos);
  CHECK(blob.refusal({.limits = {}, .memory_bytes = 5000}).find("objects need ") != std::string::npos);
  CHECK(blob.refusal() == "no error");
}

TEST_CASE("of items that lie in one another those are looked into that add up to 16 times their file") {
  FakeIo io;
  MadeCheckpoint made = checkpoint_of({tensor("a", {10})});
  made.put(io, "ckpt");
  OpenedCatalog built = build_catalog(made.content(), "ckpt", "ckpt");
  built.catalog.duplicates.assign(40, {.item = 0, .key = built.catalog.tensors[0].key, .other = built.catalog.items[0]});
  const FrozenCatalog opened = freeze(std::move(built), io, FollowLinks::kCacheOnly);
  const Catalog& catalog = opened->catalog;
  DataFiles files(io, catalog, FollowLinks::kCacheOnly);
  const std::vector<TensorId> tensors{0};
  const Resolved all = resolve(files, tensors, {}, {.faults = Faults::kCollect}, kGo);
  CHECK(std::ranges::count(all.records, true, &ItemRecord::is_data) == 16);
  REQUIRE(all.findings.size() == 1);
  CHECK(id_name(all.findings[0].id) == "items_overlap");
  CHECK(all.findings[0].severity == Severity::kDamage);
  CHECK(all.findings[0].got.find("add up to 16 times the file's") != std::string::npos);
  CHECK(resolve(files, tensors, {}, {}, kGo).items[0].resolved);  // a writer reads no other rank's copies
}

TEST_CASE("of a decoded stream both ends are kept") {
  EndsSource source({.path = "x"});
  std::string text;
  Rng rng(3);
  while (text.size() < 7 * EndsSource::kKept / 2) {
    const std::string block = noise(rng, 1 + rng() % 300000);
    source.append(as_bytes(block));
    text += block;
  }
  REQUIRE(source.size() == text.size());
  const uint64_t kept = EndsSource::kKept;
  const auto same = [&](uint64_t offset, uint64_t length) {
    return as_text(source.at(offset, length)) == std::string_view(text).substr(offset, length);
  };
  CHECK(same(0, kept));
  CHECK(same(17, 1000));
  CHECK(same(text.size() - kept, kept));
  CHECK(same(text.size() - 5, 5));
  CHECK(same(text.size(), 0));
  CHECK(error_id([&] { source.at(kept, 1); }) == "over_limit");
  CHECK(error_id([&] { source.at(kept - 1, 2); }) == "over_limit");
  EndsSource small({.path = "x"});
  small.append(as_bytes(std::string_view(text).substr(0, 3 * kept / 2)));
  CHECK(as_text(small.at(kept - 10, 20)) == std::string_view(text).substr(kept - 10, 20));
}

TEST_CASE("a read that fails ends it") {
  Checkpoint c(checkpoint_of({tensor("a", {10}), tensor("b", {100000})}));
  c.io.fail_at(dcp::test::Op::kRead, reads(c.io) + 1, ProblemId::io_read);
  CHECK(c.refusal() == "ckpt/__0_0.distcp: cannot be read: scripted fault");
}
