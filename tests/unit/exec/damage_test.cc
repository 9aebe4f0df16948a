// Damaged bytes are found by the CRC of their record, and nothing else is suspected.
#include <catch2/catch_test_macros.hpp>

#include "base/error_line.h"
#include "base/seeds.h"
#include "exec/random_run.h"

using namespace dcp;
using namespace dcp::test;

namespace {

// Runs the plan, which was made before, with the bit flipped.
ExecuteReport run_with_flip(RandomRun& run, const std::string& path, uint64_t at, MemorySink& sink) {
  std::string bytes = run.fake.text_of(path);
  const std::string whole = bytes;
  bytes.at(at) = static_cast<char>(bytes[at] ^ 4);
  run.fake.put(path, bytes);
  DataFiles files(run.io, run.opened->catalog, FollowLinks::kCacheOnly);
  Progress progress;
  const StopFlag stop{0};
  const ExecuteReport report =
      execute(run.plan, {run.opened->catalog, run.opened->resolved, files}, sink, {.workers = 1}, {progress, stop});
  run.fake.put(path, whole);
  return report;
}

std::string path_of(const MadeChunk& c) { return "ckpt/" + MadeCheckpoint::file_name(c.file); }

}  // namespace

TEST_CASE("a flipped bit of a record with a CRC is found, named, and the only finding") {
  uint64_t flips = 0;
  for (uint64_t seed = 1; seed <= seeds(150); ++seed) {
    RandomRun run(seed, false, {.zstd = false});
    Rng rng(seed);
    for (const MadeTensor& t : run.made.tensors) {
      for (const MadeChunk& c : t.chunks) {
        if (volume(c.sizes) == 0) continue;
        const uint64_t byte = rng() % c.storage.size();  // also of the parts of a storage that no element uses
        CAPTURE(seed, t.key, c.payload, byte);
        MemorySink sink(run.plan);
        const ExecuteReport report = run_with_flip(run, path_of(c), c.payload + byte, sink);
        if (!c.crc) {
          REQUIRE(report.damage.empty());
          continue;
        }
        REQUIRE(report.damage.size() == 1);
        const Problem& p = report.damage[0];
        CHECK(p.id == ProblemId::crc_mismatch);
        CHECK(p.place.tensor == t.key);
        CHECK(p.place.path == path_of(c));
        CHECK(p.place.offset == c.payload);
        CHECK(p.place.length == c.storage.size());
        CHECK_FALSE(sink.each_byte_once());  // the archive's frame is missing
        ++flips;
      }
    }
  }
  CHECK(flips > seeds(500));
}

TEST_CASE("all damaged records are reported, in the metadata's order") {
  MadeCheckpoint made;
  made.tensors = {{"b", DType::uint8, {8}, {whole_chunk({8})}},
                  {"a", DType::uint8, {8}, {whole_chunk({8})}},
                  {"c", DType::uint8, {8}, {whole_chunk({8})}}};
  FakeIo io;
  made.put(io, "ckpt");
  Opened opened(io);
  const Plan plan = opened.torch();
  std::string bytes = io.text_of("ckpt/__0_0.distcp");
  for (const size_t i : {2u, 0u}) bytes[made.tensors[i].chunks[0].payload] ^= 1;
  io.put("ckpt/__0_0.distcp", bytes);
  DataFiles files(io, opened.catalog, FollowLinks::kCacheOnly);
  MemorySink sink(plan);
  Progress progress;
  const StopFlag stop{0};
  const ExecuteReport report = execute(plan, {opened.catalog, opened.resolved, files}, sink, {.workers = 2}, {progress, stop});
  REQUIRE(report.damage.size() == 2);
  CHECK(report.damage[0].place.tensor == "b");
  CHECK(report.damage[1].place.tensor == "c");
  CHECK(report.records_checked == 3);
  CHECK(report.damage[0].got.starts_with("CRC-32 "));
  CHECK(report.damage[0].got != report.damage[0].expected);
}

TEST_CASE("bytes between the records are not looked at") {
  uint64_t flips = 0;
  for (uint64_t seed = 1; seed <= seeds(60); ++seed) {
    CAPTURE(seed);
    RandomRun run(seed, false, {.zstd = false});
    for (const MadeTensor& t : run.made.tensors) {
      for (const MadeChunk& c : t.chunks) {
        MemorySink sink(run.plan);
        CHECK(run_with_flip(run, path_of(c), c.at + c.length - 1, sink).damage.empty());
        ++flips;
      }
    }
  }
  CHECK(flips > seeds(200));
}

TEST_CASE("a flipped bit of a zstd stream does not pass for good bytes") {
  uint64_t flips = 0, found = 0;
  for (uint64_t seed = 1; seed <= seeds(150); ++seed) {
    CAPTURE(seed);
    RandomRun run(seed);
    Rng rng(seed);
    MemorySink good(run.plan);
    run.execute(good);
    for (const MadeTensor& t : run.made.tensors) {
      for (const MadeChunk& c : t.chunks) {
        if (!c.zstd || !c.crc || volume(c.sizes) == 0) continue;
        MemorySink sink(run.plan);
        ++flips;
        ExecuteReport report;
        const std::string id = error_id([&] { report = run_with_flip(run, path_of(c), c.at + rng() % c.length, sink); });
        if (id.empty() && report.damage.empty()) {
          // The flip hit the archive's frame, which is not part of the record.
          CHECK(sink.files == good.files);
          continue;
        }
        if (report.damage.empty()) {
          CHECK(id.starts_with("zstd_"));
        } else {
          CHECK(report.damage.size() == 1);
          CHECK(report.damage[0].place.tensor == t.key);
          CHECK(report.damage[0].place.offset == c.at);  // the item as a whole: a position in its decoded stream is of no use
        }
        ++found;
      }
    }
  }
  CHECK(flips > seeds(100));
  CHECK(found > flips / 4);
}

TEST_CASE("without verifying nothing is found, and nothing is read twice") {
  MadeCheckpoint made;
  made.tensors = {{"t", DType::int32, {4, 6}, {whole_chunk({4, 6})}}};
  made.tensors[0].chunks[0].extra_elements = 5;
  FakeIo io;
  made.put(io, "ckpt");
  Opened opened(io);
  const Plan checked = opened.torch(), unchecked = opened.torch({.limits = {}, .units = {.verify = false}});
  CHECK(checked.units == 2);
  CHECK(unchecked.units == 1);
  CHECK(checked.bytes_to_read == 4 * 6 * 4 + 29 * 4);
  CHECK(unchecked.bytes_to_read == 4 * 6 * 4);
  CHECK(checked.unchecked_records == 0);
}
