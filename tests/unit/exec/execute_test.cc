// Random checkpoints from end to end, against the model of elements.
#include "exec/execute.h"

#include <catch2/catch_test_macros.hpp>
#include <functional>

#include "base/error_line.h"
#include "base/seeds.h"
#include "exec/random_run.h"
#include "format/safetensors.h"
#include "items/item_source.h"

using namespace dcp;
using namespace dcp::test;

namespace {

// Every record of a torch archive has the CRC that its directory says.
void check_archive(const std::string& bytes, uint64_t records) {
  MemorySource source(as_bytes(bytes));
  const ZipDirectory directory = read_zip_directory(source, {.path = "out.pt"}, Limits{});
  CHECK(directory.records.size() == records);
  for (const ZipRecord& r : directory.records) {
    const uint64_t at = payload_of(source, directory, r, {.path = "out.pt"});
    CHECK(crc32(source.at(at, r.size)) == r.crc);
  }
}

}  // namespace

TEST_CASE("a torch file holds what the model says, each byte written once") {
  for (uint64_t seed = 1; seed <= seeds(1500); ++seed) {
    CAPTURE(seed);
    RandomRun run(seed);
    MemorySink sink(run.plan);
    const ExecuteReport report = run.execute(sink);
    REQUIRE(report.damage.empty());
    REQUIRE(sink.each_byte_once());
    for (const Region& r : run.plan.regions) {
      CAPTURE(run.made.tensors[run.plan.tensors[r.tensor].id].key);
      const std::string expected = run.expected(r);
      REQUIRE(sink.files[r.file].substr(r.file_offset, expected.size()) == expected);
    }
    check_archive(sink.files[0], run.plan.files[0].payloads.size());
    REQUIRE(report.bytes_written == run.plan.bytes_to_write);
    // With gaps between the elements more is read than planned.
    if (run.opened->resolved.strides.size() == 1) REQUIRE(report.bytes_read == run.plan.bytes_to_read);
  }
}

TEST_CASE("no worker holds more than the plan says") {
  for (uint64_t seed = 1; seed <= seeds(800); ++seed) {
    CAPTURE(seed);
    const bool safetensors = seed % 2 == 0;
    RandomRun run(seed, safetensors, {.safetensors_only = safetensors});
    MemorySink sink(run.plan);
    REQUIRE(run.execute(sink).worker_bytes <= run.plan.worker_bytes);
  }
  // Large enough for units of every kind, in the sizes that commands use.
  const auto held = [](MadeTensor tensor, bool zstd = false) {
    MadeCheckpoint made;
    for (MadeChunk& c : tensor.chunks) c.zstd = zstd;
    made.tensors = {std::move(tensor)};
    FakeIo io;
    made.put(io, "ckpt");
    Opened opened(io);
    const Plan plan = opened.torch();
    MemorySink sink(plan);
    Progress progress;
    const ExecuteReport report =
        dcp::execute(plan, {opened.catalog, opened.resolved, opened.files}, sink, {.workers = 1}, {progress, StopFlag{0}});
    CHECK(report.worker_bytes > 0);
    CHECK(report.worker_bytes <= plan.worker_bytes);
  };
  const Ints dims{600, 2500};  // 6 MB of float32
  const auto with = [&](const std::function<void(MadeChunk&)>& change, std::vector<MadeChunk> chunks) {
    for (MadeChunk& c : chunks) change(c);
    return MadeTensor{.key = "w", .dtype = DType::float32, .dims = dims, .chunks = std::move(chunks)};
  };
  const std::vector<MadeChunk> whole{whole_chunk(dims)};
  std::vector<MadeChunk> columns;
  for (int64_t c = 0; c < 100; ++c) columns.push_back({.offsets = {0, 25 * c}, .sizes = {600, 25}});
  const auto as_is = [](MadeChunk&) {};
  const auto column_major = [](MadeChunk& c) { c.strides = {1, c.sizes[0]}; };
  const auto gaps = [](MadeChunk& c) { c.strides = {2 * c.sizes[1] + 2, 2}; };
  const auto wide_gaps = [](MadeChunk& c) { c.strides = {1, 3 * c.sizes[0] + 1}; };
  const auto cast = [](MadeChunk& c) { c.stored = DType::float64; };
  for (const auto& change : std::vector<std::function<void(MadeChunk&)>>{as_is, column_major, gaps, wide_gaps, cast}) {
    held(with(change, whole));
    held(with(change, columns));
    held(with(change, whole), true);
  }
}

TEST_CASE("safetensors files hold what the model says, under the tensors' names") {
  for (uint64_t seed = 1; seed <= seeds(500); ++seed) {
    CAPTURE(seed);
    RandomRun run(seed, true, {.safetensors_only = true});
    MemorySink sink(run.plan);
    REQUIRE(run.execute(sink).damage.empty());
    REQUIRE(sink.each_byte_once());
    std::map<std::string, std::string> found;
    for (size_t f = 0; f < sink.files.size(); ++f) {
      if (run.plan.files[f].name.ends_with(".json")) continue;
      const std::string& bytes = sink.files[f];
      for (const SafetensorsEntry& e : read_safetensors_header(as_bytes(bytes), bytes.size(), {}, Limits{}).entries)
        found[e.name] = bytes.substr(e.offset, e.bytes);
    }
    REQUIRE(found.size() == run.made.tensors.size());
    for (const MadeTensor& t : run.made.tensors) {
      CAPTURE(t.key);
      REQUIRE(found[t.key] == model_bytes(t));
    }
  }
}

TEST_CASE("casts: what is written is what a loader would cast, and what is lost is counted") {
  uint64_t casts = 0, converted_first = 0;
  for (uint64_t seed = 1; seed <= seeds(1500); ++seed) {
    CAPTURE(seed);
    RandomRun run(seed, false, {}, true);
    MemorySink sink(run.plan);
    const ExecuteReport report = run.execute(sink, 1 + seed % 2);
    REQUIRE(report.damage.empty());
    REQUIRE(sink.each_byte_once());
    check_archive(sink.files[0], run.plan.files[0].payloads.size());
    std::map<std::string, CastLosses> lost;
    for (const TensorLosses& t : report.losses) lost[t.key] = t.values;
    for (const Region& r : run.plan.regions) {
      const MadeTensor& t = run.made.tensors[run.plan.tensors[r.tensor].id];
      CAPTURE(t.key, facts_of(t.dtype).name, facts_of(r.dtype).name);
      const std::string expected = run.expected(r);
      REQUIRE(sink.files[r.file].substr(r.file_offset, expected.size()) == expected);
      CastLosses losses;
      if (r.dtype != t.dtype) {
        ++casts;
        converted_first += std::ranges::any_of(t.chunks, [&](const MadeChunk& c) { return c.stored && *c.stored != t.dtype; });
        std::string out(expected.size(), '\0');
        losses = cast(reinterpret_cast<std::byte*>(out.data()), r.dtype, as_bytes(model_bytes(t)).data(), t.dtype, volume(t.dims));
      }
      REQUIRE(lost[t.key].overflowed == losses.overflowed);
      REQUIRE(lost[t.key].zeroed == losses.zeroed);
      REQUIRE(lost[t.key].not_finite == losses.not_finite);
    }
  }
  CHECK(casts > seeds(200));
  CHECK(converted_first > seeds(20));
}

TEST_CASE("a record whose CRC is summed by the units is read exactly once") {
  uint64_t records = 0;
  for (uint64_t seed = 1; seed <= seeds(500); ++seed) {
    CAPTURE(seed);
    RandomRun run(seed);
    MemorySink sink(run.plan);
    run.execute(sink);
    for (ItemId i = 0; i < run.plan.checks.size(); ++i) {
      if (run.plan.checks[i] != CrcCheck::kFromUnits) continue;
      const Item& item = run.opened->catalog.items[i];
      const ItemInfo& info = run.opened->resolved.items[i];
      const bool packed = item.transforms != 0;  // read whole, in its packed form
      const auto once = std::pair(1u, 1u);
      CHECK(run.io.times(run.opened->catalog.file_path(item.file), packed ? item.offset : info.record,
                         packed ? item.length : info.record_bytes) == once);
      ++records;
    }
  }
  CHECK(records > seeds(1000));
}

TEST_CASE("one, two and five workers write the same bytes") {
  for (uint64_t seed = 1; seed <= seeds(100); ++seed) {
    CAPTURE(seed);
    RandomRun run(seed);
    MemorySink one(run.plan), two(run.plan), five(run.plan);
    run.execute(one, 1);
    run.execute(two, 2);
    run.execute(five, 5);
    REQUIRE(two.each_byte_once());
    REQUIRE(five.each_byte_once());
    REQUIRE(two.files == one.files);
    REQUIRE(five.files == one.files);
  }
}

TEST_CASE("reads that come back short change nothing") {
  for (uint64_t seed = 1; seed <= seeds(50); ++seed) {
    CAPTURE(seed);
    RandomRun run(seed);
    MemorySink whole(run.plan), pieces(run.plan);
    run.execute(whole);
    run.fake.max_read = 7;
    REQUIRE(run.execute(pieces).damage.empty());
    REQUIRE(pieces.files == whole.files);
  }
}
