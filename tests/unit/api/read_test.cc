// open, read, verify, consolidate, reshard: through the public headers alone.
#include <catch2/catch_test_macros.hpp>
#include <filesystem>
#include <fstream>
#include <thread>

#include "api/tensors.h"
#include "base/temp_dir.h"

using namespace dcpctl;
using namespace dcpctl::test;
using dcp::test::TempDir;

namespace {

const std::string kData = DCPCTL_TEST_DATA;

// A matrix of 6 x 4 in two boxes, and a vector.
std::string made(const TempDir& dir) {
  const std::vector<float> matrix = counted(24), vector = counted(5, 100);
  const std::string path = dir / "ckpt";
  save(path,
       std::vector<Shard>{{.key = "m.matrix", .dtype = "float32", .shape = {6, 4}, .sizes = {2, 4}, .data = matrix.data()},
                          {.key = "m.matrix", .dtype = "float32", .shape = {6, 4}, .offsets = {2, 0}, .sizes = {4, 4}, .data = &matrix[8]},
                          {.key = "vector", .dtype = "float32", .shape = {5}, .data = vector.data()}});
  return path;
}

}  // namespace

TEST_CASE("a checkpoint that torch wrote lists its tensors and gives their elements") {
  const Checkpoint checkpoint = open(kData + "/fsdp2_ws4/ckpt");
  CHECK(checkpoint.path() == kData + "/fsdp2_ws4/ckpt");
  REQUIRE(!checkpoint.tensors().empty());
  for (const TensorInfo& t : checkpoint.tensors()) {
    INFO(t.key);
    std::vector<std::byte> all(t.bytes);
    checkpoint.read(t.key, all);
    // The halves of it, which lie in files of several ranks, are the same elements.
    if (t.shape.empty()) continue;
    const int64_t half = t.shape[0] / 2;
    const size_t row = t.shape[0] == 0 ? 0 : t.bytes / static_cast<size_t>(t.shape[0]), cut = row * static_cast<size_t>(half);
    std::vector<std::byte> halves(t.bytes);
    ReadOptions first{.slice = std::vector<Range>(t.shape.size())}, rest = first;
    first.slice[0].count = half;
    rest.slice[0].start = half;
    checkpoint.read(t.key, std::span(halves).first(cut), first);
    checkpoint.read(t.key, std::span(halves).subspan(cut), rest);
    CHECK(halves == all);
  }
}

TEST_CASE("slices, steps and dtypes") {
  const TempDir dir;
  const Checkpoint checkpoint = open(made(dir));
  CHECK(checkpoint.tensor("m.matrix").shape == Ints{6, 4});
  CHECK(read(checkpoint, "m.matrix", {}, 24) == counted(24));
  CHECK(read(checkpoint, "m.matrix", {.slice = {{.start = 1, .count = 2}, {.start = 3}}}, 2) == std::vector<float>{7, 11});
  CHECK(read(checkpoint, "m.matrix", {.slice = {{.start = 1, .step = 3}, {.step = 2}}}, 4) == std::vector<float>{4, 6, 16, 18});
  CHECK(read(checkpoint, "m.matrix", {.slice = {{.start = 6}, {}}}, 0).empty());
  std::vector<double> wide(5);
  checkpoint.read("vector", std::as_writable_bytes(std::span(wide)), {.dtype = "float64"});
  CHECK(wide == std::vector<double>{100, 101, 102, 103, 104});
}

TEST_CASE("a read converts between floating-point dtypes, whatever the tensor's name, and nothing else") {
  const TempDir dir;
  const std::vector<int32_t> ids{1, 2};
  const std::vector<float> scale{0.5, 2};
  save(dir / "ckpt", std::vector<Shard>{{.key = "ids", .dtype = "int32", .shape = {2}, .data = ids.data()},
                                        {.key = "w_scale_inv", .dtype = "float32", .shape = {2}, .data = scale.data()}});
  const Checkpoint checkpoint = open(dir / "ckpt");
  CHECK(thrown([&] { read(checkpoint, "ids", {.dtype = "float32"}, 2); }).got == "int32 to float32");
  std::vector<double> wide(2);
  checkpoint.read("w_scale_inv", std::as_writable_bytes(std::span(wide)), {.dtype = "float64"});
  CHECK(wide == std::vector<double>{0.5, 2});
}

TEST_CASE("many threads read one checkpoint") {
  const TempDir dir;
  const Checkpoint checkpoint = open(made(dir));
  std::vector<std::vector<float>> found(8);
  std::vector<std::thread> threads;
  for (size_t t = 0; t < found.size(); ++t)
    threads.emplace_back([&, t] {
      for (int again = 0; again < 4; ++again) found[t] = read(checkpoint, "m.matrix", {}, 24);
    });
  for (std::thread& t : threads) t.join();
  for (const auto& values : found) CHECK(values == counted(24));
}

TEST_CASE("a read that cannot be says why") {
  const TempDir dir;
  const std::string path = made(dir);
  const Checkpoint checkpoint = open(path);
  std::vector<std::byte> bytes(96);
  const auto refused = [&](const std::string& key, size_t size, const ReadOptions& options) {
    return thrown([&] { checkpoint.read(key, std::span(bytes).first(size), options); });
  };
  CHECK(refused("m.matrix", 95, {}).line.ends_with("the call is wrong (got a buffer of 95 bytes, expected 96)"));
  CHECK(refused("matrix", 96, {}).id == "key_missing");
  CHECK(refused("matrix", 96, {}).kind == Kind::kUsage);
  CHECK(refused("m.matrix", 96, {.slice = {{}}}).got == "1 ranges");
  CHECK(refused("m.matrix", 96, {.slice = {{.start = 7}, {}}}).got == "index 7 along dim 0");
  CHECK(refused("m.matrix", 96, {.slice = {{.start = 2, .count = 5}, {}}}).got == "5 indices from 2 along dim 0");
  CHECK(refused("m.matrix", 96, {.slice = {{.step = 0}, {}}}).got == "a step of 0 along dim 0");
  CHECK(refused("m.matrix", 96, {.dtype = "torch.float32"}).got == "dtype 'torch.float32'");
  CHECK(thrown([&] { checkpoint.tensor("nothing"); }).key == "nothing");
  CHECK(thrown([&] { open(dir / "none"); }).kind == Kind::kInput);
}

TEST_CASE("damage is an error of a read, and a finding of verify") {
  const TempDir dir;
  const std::string path = made(dir);
  CHECK(verify(path).is_sound);
  CHECK(verify(path).records_checked == 12);  // of each item its data, pickle, byte order and version
  {
    std::fstream file(path + "/__0_0.distcp", std::ios::in | std::ios::out | std::ios::binary);
    std::string all((std::istreambuf_iterator<char>(file)), {});
    const float two = 2;
    const size_t at = all.find(std::string(reinterpret_cast<const char*>(&two), 4));
    REQUIRE(at != std::string::npos);
    file.seekp(static_cast<std::streamoff>(at)).put('\x01');
  }
  const Problem p = thrown([&] { read(path, "m.matrix"); });
  CHECK(p.id == "crc_mismatch");
  CHECK(p.kind == Kind::kInput);
  CHECK(p.key == "m.matrix");
  CHECK(p.path == path + "/__0_0.distcp");
  const VerifyReport report = verify(path);
  CHECK_FALSE(report.is_sound);
  REQUIRE(report.findings.size() == 1);
  CHECK(report.findings[0].id == "crc_mismatch");
  CHECK(report.findings[0].severity == Severity::kDamage);
  CHECK(verify(path, {.data = false}).is_sound);
  CHECK(read(path, "vector") == counted(5, 100));
}

TEST_CASE("consolidate and reshard give the same elements") {
  const TempDir dir;
  const std::string path = made(dir);
  const RewriteReport report = consolidate(path, dir / "model.safetensors");
  CHECK(report.tensors == 2);
  CHECK(report.records_checked == 3);
  CHECK(read(dir / "model.safetensors", "m.matrix") == counted(24));
  consolidate(path, dir / "shards", {}, 64);
  CHECK(std::filesystem::exists(dir / "shards/model.safetensors.index.json"));
  CHECK(read(dir / "shards", "vector") == counted(5, 100));
  reshard(path, dir / "on4", {.world_size = 4});
  CHECK(std::filesystem::exists(dir / "on4/__3_0.distcp"));
  CHECK(read(dir / "on4", "m.matrix") == counted(24));
  reshard(path, dir / "mesh", {.mesh = {2, 2}, .placements = {"*matrix=shard(0),shard(1)", "*=replicate,replicate"}});
  CHECK(read(dir / "mesh", "m.matrix") == counted(24));

  CHECK(thrown([&] { consolidate(path, dir / "model.safetensors"); }).id == "output_exists");
  CHECK(thrown([&] { consolidate(path, dir / "model.onnx"); }).kind == Kind::kUsage);
  CHECK(thrown([&] { consolidate(path, dir / "model.pt", {}, 64); }).kind == Kind::kUsage);
  CHECK(thrown([&] { consolidate(path, dir / "half.pt", {.dtype = "half"}); }).got == "dtype 'half'");
  reshard(path, dir / "same", {});  // for as many ranks as the source has
  CHECK(read(dir / "same", "m.matrix") == counted(24));
}
