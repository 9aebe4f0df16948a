// Use cases without a command line: files in memory, and a listener that writes down what it hears.
#include <catch2/catch_test_macros.hpp>
#include <string>
#include <vector>

#include "app/inspect.h"
#include "app/save.h"
#include "app/verify.h"
#include "app/write.h"
#include "base/error_line.h"
#include "base/fake_io.h"
#include "base/io_wrapper.h"
#include "exec/synthetic.h"

using namespace dcp;
using namespace dcp::test;
using Lines = std::vector<std::string>;

namespace {

struct Listener final : Events {
  void info(std::string_view text) override { notes.emplace_back(text); }
  void warn(std::string_view text) override { complaints.emplace_back(text); }
  std::unique_ptr<Display> show(const Progress&, const std::atomic<uint64_t>&, uint64_t total) override {
    totals.push_back(total);
    return nullptr;
  }
  Lines notes, complaints;
  std::vector<uint64_t> totals;
};

// A checkpoint of two ranks in "/ckpt", three float32 tensors.
struct Fixture {
  Fixture() { write_synthetic(io, "/ckpt", {.bytes = 3000, .world_size = 2, .tensors = 3, .seed = 7}, {.sync = false}, stop); }
  ReadRequest read(const std::string& path = "/ckpt") const { return {.source = {.path = path}, .max_memory = kGiB, .threads = 1}; }
  WriteRequest to(const std::string& path, OutputRequest::Kind kind) const {
    return {.read = read(), .output = {.path = path, .kind = kind}, .sync = false};
  }
  FakeIo io;
  StopFlag stop{0};
  Listener listener;
  World world{io, stop, listener};
};

}  // namespace

TEST_CASE("a write is planned, announced, and leaves what it did in its result") {
  Fixture f;
  WriteResult result;
  bool planned = false;
  write(f.to("/out.safetensors", OutputRequest::Kind::kSafetensors), f.world, result, [&] {
    planned = true;
    CHECK(result.plan->tensors.size() == 3);
    CHECK(f.io.facts("/out.safetensors") == std::nullopt);
  });
  CHECK(planned);
  CHECK(f.listener.totals == std::vector<uint64_t>{result.plan->bytes_to_write});
  CHECK(result.executed.bytes_written == result.plan->bytes_to_write);
  CHECK(f.io.text_of("/out.safetensors").size() == result.plan->bytes_to_write);
}

TEST_CASE("a dry run makes nothing, and has the same plan") {
  Fixture f;
  const Lines before = f.io.paths();
  WriteRequest request = f.to("/out.pt", OutputRequest::Kind::kTorch);
  request.dry_run = true;
  WriteResult result;
  write(request, f.world, result, [] {});
  CHECK(f.io.paths() == before);
  CHECK(f.listener.totals.empty());
  request.dry_run = false;
  WriteResult real;
  write(request, f.world, real, [] {});
  CHECK(real.plan->bytes_to_write == result.plan->bytes_to_write);
}

TEST_CASE("a dry run meets a full disk as the run would") {
  for (const bool dry : {true, false}) {
    Fixture f;
    f.io.put_folder("/empty");
    WriteRequest file = f.to("/out.pt", OutputRequest::Kind::kTorch), folder = f.to("/empty", OutputRequest::Kind::kDcp);
    file.dry_run = folder.dry_run = dry;
    folder.output.layout.world_size = 2;
    const Lines before = f.io.paths();
    const auto said = [&](const WriteRequest& request) {
      WriteResult result;
      return error_line([&] { write(request, f.world, result, [] {}); });
    };
    f.io.capacity_bytes = 5000;
    CHECK(said(file).starts_with("/out.pt: not enough space: needs "));
    CHECK(said(folder).starts_with("/empty: not enough space: needs "));
    CHECK(f.io.paths() == before);
  }
}

TEST_CASE("what was not expected is complained of before the first byte, and is in the result") {
  Fixture f;
  f.io.put("/list", "other float32 [3]\n");
  WriteRequest request = f.to("/out.pt", OutputRequest::Kind::kTorch);
  request.expect.reference = "/list";
  WriteResult result;
  CHECK(error_id([&] { write(request, f.world, result, [] { FAIL("not planned"); }); }) == "expect_differs");
  CHECK(f.listener.complaints.size() == 4);
  CHECK(result.expectation.differences.size() == 4);
  CHECK(f.io.facts("/out.pt") == std::nullopt);
}

TEST_CASE("a manifest that one use case writes proves the output of another") {
  Fixture f;
  VerifyResult whole;
  verify({.read = f.read(), .manifest = "/m.json"}, f.world, whole);
  CHECK(whole.wrote_manifest);
  CHECK_FALSE(whole.is_damaged());
  CHECK(whole.kind == CheckpointKind::kDcp);
  WriteResult written;
  write(f.to("/out.safetensors", OutputRequest::Kind::kSafetensors), f.world, written, [] {});
  VerifyResult same;
  verify({.read = f.read("/out.safetensors"), .against = "/m.json", .file_digests = false}, f.world, same);
  CHECK(same.compared_keys == 3);
  CHECK_FALSE(same.is_damaged());
  std::string bytes = f.io.text_of("/out.safetensors");
  bytes.back() = static_cast<char>(bytes.back() ^ 1);
  f.io.put("/out.safetensors", bytes);
  VerifyResult other;
  verify({.read = f.read("/out.safetensors"), .against = "/m.json", .file_digests = false}, f.world, other);
  CHECK(other.count(Severity::kDamage) == 1);
}

TEST_CASE("what inspect finds stands beside the catalog, which stays as it was opened") {
  Fixture f;
  f.io.put("/ckpt/__1_0.distcp", "short");
  InspectResult found;
  inspect({.source = {.path = "/ckpt"}, .max_memory = kGiB}, f.world, found);
  REQUIRE(found.findings.size() >= 1);
  CHECK(found.findings[0].severity == Severity::kDamage);
  CHECK(found.selection.entries.size() == 3);
}

TEST_CASE("a stop that comes while units run leaves nothing") {
  Fixture f;
  const Lines before = f.io.paths();
  f.stop = 2;
  WriteResult result;
  CHECK(error_id([&] { write(f.to("/out.pt", OutputRequest::Kind::kTorch), f.world, result, [] {}); }) == "interrupted");
  CHECK(f.io.paths() == before);
}

namespace {

// Completes the file while an item is being appended to it.
struct Impatient final : Events {
  std::unique_ptr<Display> show(const Progress&, const std::atomic<uint64_t>&, uint64_t) override {
    save->complete(*world);
    return nullptr;
  }
  StepSave* save = nullptr;
  World* world = nullptr;
};

// Ctrl-C comes when a block is written, or while the file gets on disk.
struct Interrupted final : IoWrapper {
  Interrupted(Io& inner, StopFlag& the_stop, bool is_at_write) : IoWrapper(inner), stop(the_stop), at_write(is_at_write) {}
  size_t write_past_cache(Handle file, uint64_t offset, Bytes bytes) override {
    ++writes;
    if (at_write) stop = 2;
    return IoWrapper::write_past_cache(file, offset, bytes);
  }
  void sync_part(Handle, uint64_t, uint64_t) override {
    ++syncs;
    stop = 2;
  }
  StopFlag& stop;
  const bool at_write;
  std::atomic<int> writes{0}, syncs{0};
};

}  // namespace

TEST_CASE("a file is not complete while an item is appended to it") {
  Fixture f;
  StepSave save({.path = "/steps", .shards = {}, .failure = {}}, f.world);
  Impatient impatient;
  World world(f.io, f.stop, impatient);
  impatient.save = &save;
  impatient.world = &world;
  const float value = 1;
  const MemoryShard shard{.key = "x", .dtype = "float32", .data = reinterpret_cast<const std::byte*>(&value)};
  const std::vector<StepSave::Item> items{{.shard = &shard}};
  try {
    save.append(items, world);
    FAIL("it is complete");
  } catch (const Error& e) {
    CHECK(e.problem().got == "a file to which items are being appended");
  }
}

TEST_CASE("a save stops within an item, and while its files get on disk") {
  Fixture f;
  Events nobody;
  const std::vector<float> values(20 << 20);
  const auto size = static_cast<int64_t>(values.size());
  const MemoryShard shard{.key = "x", .dtype = "float32", .shape = {size}, .data = reinterpret_cast<const std::byte*>(values.data())};
  const std::vector<StepSave::Item> items{{.shard = &shard}};
  const Lines before = f.io.paths();
  for (const bool is_at_write : {true, false}) {
    f.stop = 0;
    Interrupted io(f.io, f.stop, is_at_write);
    World world(io, f.stop, nobody);
    {
      StepSave save({.path = "/steps", .shards = {}, .failure = {}}, world);
      const auto append = [&] { save.append(items, world); };
      if (is_at_write) {
        CHECK(error_id(append) == "interrupted");
        CHECK(io.writes == 1);
      } else {
        append();
        CHECK(error_id([&] { save.finish("", world); }) == "interrupted");
        CHECK(io.syncs == 1);  // of ten
      }
    }
    CHECK(f.io.paths() == before);
  }
}
