// What goes wrong while units run ends the run: nothing is written after it, and the archive's frame never appears.
#include <catch2/catch_test_macros.hpp>
#include <csignal>

#include "base/error_line.h"
#include "base/seeds.h"
#include "exec/random_run.h"

using namespace dcp;
using namespace dcp::test;

namespace {

constexpr uint64_t kSeeds = 40;

// Bytes of the frame: neither literal nor payload.
bool frame_written(const Plan& plan, const MemorySink& sink) {
  return sink.times[0][0] != 0 || sink.times[0][plan.files[0].bytes - 1] != 0;
}

uint64_t reads_of_a_run(RandomRun& run) {
  MemorySink sink(run.plan);
  const uint64_t before = run.fake.calls(dcp::test::Op::kRead);
  run.execute(sink);
  return run.fake.calls(dcp::test::Op::kRead) - before;
}

}  // namespace

TEST_CASE("nothing is written after a read that fails") {
  for (uint64_t seed = 1; seed <= seeds(kSeeds); ++seed) {
    RandomRun run(seed);
    const uint64_t reads = reads_of_a_run(run);
    for (uint64_t k = 0; k < reads; k += 1 + reads / 10) {
      CAPTURE(seed, k, reads);
      MemorySink sink(run.plan);
      const uint64_t failing = run.fake.calls(dcp::test::Op::kRead) + k;
      uint64_t writes_then = 0;
      run.fake.before = [&](dcp::test::Op op, uint64_t n) {
        if (op == dcp::test::Op::kRead && n == failing) writes_then = sink.writes;
      };
      run.fake.fail_at(dcp::test::Op::kRead, failing, ProblemId::io_read);
      CHECK(error_id([&] { run.execute(sink); }) == "io_read");
      run.fake.before = nullptr;
      CHECK(sink.writes == writes_then);
      CHECK_FALSE(frame_written(run.plan, sink));
    }
  }
}

TEST_CASE("a read that fails under several workers ends the run") {
  for (uint64_t seed = 1; seed <= seeds(kSeeds); ++seed) {
    RandomRun run(seed);
    const uint64_t reads = reads_of_a_run(run);
    if (reads == 0) continue;
    CAPTURE(seed);
    MemorySink sink(run.plan);
    run.fake.fail_at(dcp::test::Op::kRead, run.fake.calls(dcp::test::Op::kRead) + reads / 2, ProblemId::io_read);
    CHECK(error_id([&] { run.execute(sink, 5); }) == "io_read");
    CHECK_FALSE(frame_written(run.plan, sink));
  }
}

TEST_CASE("a stop request lets the running unit finish and starts no other") {
  for (uint64_t seed = 1; seed <= seeds(kSeeds); ++seed) {
    RandomRun run(seed);
    const uint64_t reads = reads_of_a_run(run);
    if (reads == 0) continue;
    for (const uint64_t k : {uint64_t{0}, reads / 2, reads - 1}) {
      CAPTURE(seed, k, reads);
      MemorySink sink(run.plan);
      StopFlag stop{0};
      const uint64_t stopping = run.fake.calls(dcp::test::Op::kRead) + k;
      run.fake.before = [&](dcp::test::Op op, uint64_t n) {
        if (op == dcp::test::Op::kRead && n == stopping) stop = SIGINT;
      };
      Progress progress;
      CHECK(error_id([&] {
              execute(run.plan, {run.opened->catalog, run.opened->resolved, run.opened->files}, sink, {.workers = 1}, {progress, stop});
            }) == "interrupted");
      run.fake.before = nullptr;
      CHECK_FALSE(frame_written(run.plan, sink));
      CHECK(std::ranges::all_of(sink.times[0], [](unsigned n) { return n <= 1; }));
    }
  }
}

TEST_CASE("a sink that fails ends the run with its error") {
  struct FailingSink : MemorySink {
    using MemorySink::MemorySink;
    void write(uint32_t file, uint64_t offset, Bytes bytes) override {
      if (writes == last) fail(ProblemId::io_no_space, {.path = "out.pt"});
      MemorySink::write(file, offset, bytes);
    }
    uint64_t last = 0;
  };
  RandomRun run(3);
  MemorySink whole(run.plan);
  run.execute(whole);
  REQUIRE(whole.writes > 3);
  for (uint64_t k = 0; k < whole.writes; ++k) {
    FailingSink sink(run.plan);
    sink.last = k;
    CHECK(error_id([&] { run.execute(sink); }) == "io_no_space");
    CHECK(sink.writes == k);
  }
}

TEST_CASE("a file that became shorter after it was looked at") {
  MadeCheckpoint made;
  made.tensors = {{"t", DType::float32, {100}, {whole_chunk({100})}}};
  FakeIo io;
  made.put(io, "ckpt");
  Opened opened(io);
  const Plan plan = opened.torch();
  io.put("ckpt/__0_0.distcp", io.text_of("ckpt/__0_0.distcp").substr(0, made.tensors[0].chunks[0].payload + 399));
  DataFiles files(io, opened.catalog, FollowLinks::kCacheOnly);
  MemorySink sink(plan);
  Progress progress;
  const StopFlag stop{0};
  CHECK(error_id([&] { execute(plan, {opened.catalog, opened.resolved, files}, sink, {.workers = 1}, {progress, stop}); }) == "short_file");
}

TEST_CASE("a zstd stream that became shorter after it was looked at is no tensor") {
  MadeCheckpoint made;
  made.tensors = {{"t", DType::float32, {600}, {whole_chunk({600})}}};
  made.tensors[0].chunks[0].zstd = true;
  for (const bool crc : {true, false}) {
    made.tensors[0].chunks[0].crc = crc;
    FakeIo io;
    made.put(io, "ckpt");
    Opened opened(io);
    const Plan plan = opened.safetensors();
    // Frames of the same length in all that hold less: a short one, then one that readers skip.
    std::string bytes = made_zstd(std::string(1000, 'x'));
    const uint64_t rest = made.tensors[0].chunks[0].length - bytes.size() - 8;
    bytes += std::string("\x50\x2a\x4d\x18", 4) + static_cast<char>(rest & 255) + static_cast<char>(rest >> 8) + std::string(2, '\0');
    bytes.append(rest, ' ');
    io.put("ckpt/__0_0.distcp", bytes);
    DataFiles files(io, opened.catalog, FollowLinks::kCacheOnly);
    MemorySink sink(plan);
    Progress progress;
    const StopFlag stop{0};
    CHECK(error_id([&] { execute(plan, {opened.catalog, opened.resolved, files}, sink, {.workers = 1}, {progress, stop}); }) ==
          "zstd_truncated");
  }
}
