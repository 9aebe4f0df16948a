// Byte items, opaque tensors, and records larger than one pass: what is copied, streamed or checked in several blocks.
#include <catch2/catch_test_macros.hpp>

#include "base/error_line.h"
#include "catalog/made_blobs.h"
#include "exec/random_run.h"

using namespace dcp;
using namespace dcp::test;

namespace {

ExecuteReport run_plan(const Plan& plan, Opened& opened, Sink& sink) {
  Progress progress;
  const StopFlag stop{0};
  return execute(plan, {opened.catalog, opened.resolved, opened.files}, sink, {.workers = 3}, {progress, stop});
}

// The payloads of data/0, data/1, ... of the written archive.
std::vector<std::string> storages_of(const Plan& plan, const MemorySink& sink) {
  std::vector<std::string> storages;
  const TorchArchiveLayout& archive = *plan.files[0].archive;
  for (uint64_t r = 2; r + 1 < archive.record_count(); ++r)  // data.pkl and byteorder come first, version last
    storages.push_back(sink.files[0].substr(archive.payload(r), archive.payload_bytes(r)));
  return storages;
}

// Row-major tensors on both sides of 4 MiB, so that passes end inside the record.
MadeCheckpoint large(bool zstd) {
  MadeCheckpoint made;
  made.tensors = {{"t", DType::float32, {1100, 1000}, {}}};
  for (const Ints& offsets : {Ints{0, 0}, Ints{0, 999}}) {
    MadeChunk c{.offsets = offsets, .sizes = {1100, offsets[1] == 0 ? 999 : 1}};
    c.zstd = zstd;
    made.tensors[0].chunks.push_back(c);
  }
  return made;
}

}  // namespace

TEST_CASE("storages of byte items and opaque tensors are copied as they are") {
  for (const bool zstd : {false, true}) {
    CAPTURE(zstd);
    Rng rng(7);
    MadeCheckpoint made;
    made.shuffled = true;
    made.blobs = {nested_blob(rng, "optim", {5, 0, 7}), number_blob("epoch", 3), nested_blob(rng, "more", {1})};
    for (MadeBlob& b : made.blobs) b.zstd = zstd;
    made.blobs[2].storages[0].crc = false;
    made.tensors = {{"q", DType::qint8, {9}, {quantized_chunk(rng, 9)}}, {"w", DType::int16, {3}, {whole_chunk({3})}}};
    made.tensors[0].chunks[0].zstd = zstd;
    FakeIo io;
    made.put(io, "ckpt");
    Opened opened(io);
    const Plan plan = opened.torch();
    MemorySink sink(plan);
    const ExecuteReport report = run_plan(plan, opened, sink);
    REQUIRE(report.damage.empty());
    CHECK(sink.each_byte_once());
    std::vector<std::string> expected{made.tensors[0].chunks[0].storage, made.tensors[1].chunks[0].storage};
    for (const MadeBlob& b : made.blobs)
      for (const MadeRecord& r : b.storages) expected.push_back(r.bytes);
    CHECK(storages_of(plan, sink) == expected);
    CHECK(report.records_checked == 4);  // all but the empty one and the one without a CRC
    CHECK(plan.copies[0].from_decoded == zstd);
  }
}

TEST_CASE("a damaged storage of a byte item is found") {
  Rng rng(8);
  MadeCheckpoint made;
  made.blobs = {nested_blob(rng, "optim", {5, 2000000})};
  FakeIo io;
  made.put(io, "ckpt");
  Opened opened(io);
  const Plan plan = opened.torch();
  REQUIRE(plan.copies.size() == 2);
  CHECK(plan.units == 3);
  const std::string whole = io.text_of("ckpt/__0_0.distcp");
  for (const auto& [copy, byte] : {std::pair(0u, 19u), {1u, 0u}, {1u, 5000000u}, {1u, 7999999u}}) {
    std::string bytes = whole;
    bytes[plan.copies[copy].source_offset + byte] ^= 1;
    io.put("ckpt/__0_0.distcp", bytes);
    DataFiles files(io, opened.catalog, FollowLinks::kCacheOnly);
    MemorySink sink(plan);
    Progress progress;
    const StopFlag stop{0};
    const ExecuteReport report = execute(plan, {opened.catalog, opened.resolved, files}, sink, {.workers = 2}, {progress, stop});
    REQUIRE(report.damage.size() == 1);
    CHECK(report.damage[0].place.offset == plan.copies[copy].source_offset);
    CHECK(report.damage[0].place.tensor == "optim");
  }
}

TEST_CASE("records of more than one pass, plain, packed and padded") {
  for (const bool zstd : {false, true}) {
    for (const bool padded : {false, true}) {
      CAPTURE(zstd, padded);
      MadeCheckpoint made = large(zstd);
      if (padded) made.tensors[0].chunks[0].extra_elements = 100000;
      FakeIo io;
      made.put(io, "ckpt");
      Opened opened(io);
      const Plan plan = opened.torch();
      MemorySink sink(plan);
      const ExecuteReport report = run_plan(plan, opened, sink);
      REQUIRE(report.damage.empty());
      CHECK(sink.each_byte_once());
      CHECK((storages_of(plan, sink)[0] == model_bytes(made.tensors[0])));
      CHECK(report.records_checked == 2);
    }
  }
}

TEST_CASE("a packed column-major record is held whole and gathered") {
  MadeCheckpoint made;
  MadeChunk c = whole_chunk({1100, 1000});
  c.strides = {1, 1100};
  c.zstd = true;
  made.tensors = {{"t", DType::bfloat16, {1100, 1000}, {c}}};
  made.tensors[0].chunks[0].stored = DType::float32;
  FakeIo io;
  made.put(io, "ckpt");
  Opened opened(io);
  const Plan plan = opened.torch();
  CHECK(plan.worker_bytes >= 2 * 4400000);
  MemorySink sink(plan);
  REQUIRE(run_plan(plan, opened, sink).damage.empty());
  CHECK((storages_of(plan, sink)[0] == model_bytes(made.tensors[0])));
}
