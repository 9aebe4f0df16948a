// What reads a checkpoint reads it from any store, and answers the same as from a disk. Outputs go to the disk.
#include <catch2/catch_test_macros.hpp>
#include <functional>
#include <string>
#include <vector>

#include "app/diff.h"
#include "app/edit.h"
#include "app/extract.h"
#include "app/inspect.h"
#include "app/object_store.h"
#include "app/prune.h"
#include "app/read.h"
#include "app/run_survey.h"
#include "app/stats.h"
#include "app/verify.h"
#include "app/write.h"
#include "base/error_line.h"
#include "base/fake_io.h"
#include "exec/synthetic.h"

using namespace dcp;
using namespace dcp::test;
using OutputKind = OutputRequest::Kind;

namespace {

const std::string kRun = "mem://bucket/run", kSteps = kRun + "/step-";
const std::string kKey = "model.layers.1.weight";

ReadRequest reading(const std::string& path, unsigned threads = 2) {
  return {.source = {.path = path}, .max_memory = kGiB, .threads = threads};
}

void write_to(World& world, const ReadRequest& read, const std::string& path, OutputKind kind) {
  OutputRequest output{.path = path, .kind = kind};
  output.layout.world_size = kind == OutputKind::kDcp ? 2 : 0;
  WriteResult result;
  write({.read = read, .output = output, .verify_after = true, .sync = false}, world, result, [] {});
}

// The same tensors in each kind of checkpoint: on a disk, and under the same names in a store, of which that disk knows nothing.
struct Both {
  Both() {
    disk.put_folder("mem://bucket/run");
    for (const char* step : {"100", "200"})
      write_synthetic(disk, kSteps + step, {.bytes = 900'000, .world_size = 3, .tensors = 2, .dtype = DType::float32, .seed = 5},
                      {.sync = false}, stop);
    for (const auto& [path, kind] : others) write_to(on_disk, reading(kinds[0]), path, kind);
    for (const std::string& path : disk.paths()) objects.put(path, disk.text_of(path));
  }
  // What a use case makes of a checkpoint in either.
  void same(const std::function<std::string(World&)>& answer) {
    const std::string expected = answer(on_disk);
    CHECK_FALSE(expected.empty());
    CHECK(answer(in_store) == expected);
    CHECK(objects.open_handles() == 0);
    CHECK(output.open_handles() == 0);
  }

  const std::vector<std::pair<std::string, OutputKind>> others{{"mem://bucket/model.safetensors", OutputKind::kSafetensors},
                                                               {"mem://bucket/model.pt", OutputKind::kTorch},
                                                               {"mem://bucket/hf", OutputKind::kShards}};
  const std::vector<std::string> kinds{kSteps + "200", others[0].first, others[1].first, others[2].first};
  FakeIo disk, output;
  ObjectStore objects;
  StopFlag stop{0};
  Events nobody;
  World on_disk{disk, stop, nobody};
  World in_store{objects, output, stop, nobody};
};

std::string text_of(const std::vector<Problem>& findings) {
  std::string text;
  for (const Problem& p : findings) text += to_line(p) + "\n";
  return text;
}

}  // namespace

TEST_CASE("what is in a checkpoint is the same from any store") {
  Both b;
  for (const std::string& path : b.kinds)
    b.same([&](World& world) {
      InspectResult found;
      inspect({.source = {.path = path}, .max_memory = kGiB}, world, found);
      std::string text = text_of(found.findings) + std::string(found.catalog().traits().words);
      for (const Signature& s : signatures_of(found.catalog())) text += s.key + s.dtype;
      return text;
    });
}

TEST_CASE("a checkpoint is verified, with digests of its keys and its files, from any store") {
  Both b;
  for (const std::string& path : b.kinds)
    b.same([&](World& world) {
      VerifyResult found;
      verify({.read = reading(path), .manifest = "-"}, world, found);
      CHECK_FALSE(found.is_damaged());
      return text_of(found.findings) + found.manifest;
    });
  std::string bytes = b.disk.text_of(b.kinds[1]);
  bytes.back() = static_cast<char>(bytes.back() ^ 1);
  b.objects.put(b.kinds[1], bytes);
  DiffResult found;
  diff({.a = reading(b.kinds[0]), .b = reading(b.kinds[1])}, b.in_store, found);
  CHECK(found.count(KeyDifference::Kind::kValues) == 1);
}

TEST_CASE("checkpoints of all kinds in a store hold the same") {
  Both b;
  for (const std::string& path : b.kinds) {
    DiffResult found;
    diff({.a = reading(b.kinds[0]), .b = reading(path)}, b.in_store, found);
    CHECK(found.equal());
    CHECK(found.tensors == 2);
  }
}

TEST_CASE("the steps of a run in a store are listed, and the newest is read") {
  Both b;
  b.objects.put(kSteps + "300/.metadata", "cut");
  b.objects.put(kRun + "/latest", "300\n");
  ListResult found;
  list_steps({.survey = {.run = kRun, .pattern = {}, .max_memory = kGiB, .threads = 2}}, b.in_store, found);
  REQUIRE(found.survey.steps.size() == 3);
  CHECK(found.survey.steps[0].state == StepState::kComplete);
  CHECK(found.survey.steps[2].state == StepState::kBroken);
  REQUIRE(found.survey.pointers.size() == 1);
  CHECK(found.survey.pointers[0].wrong == "points to step-300, which is damaged");

  ReadRequest latest = reading(kRun);
  latest.source.step = "latest";
  WriteResult written;
  write({.read = latest, .output = {.path = "/out.pt", .kind = OutputKind::kTorch}, .sync = false}, b.in_store, written, [] {});
  CHECK(written.checkpoint == kSteps + "200");
}

TEST_CASE("elements come from any store: extracted, as statistics, and read into memory") {
  Both b;
  for (const std::string& path : b.kinds) {
    b.same([&](World& world) {
      Extraction found({.read = reading(path), .key = kKey, .slice = Subscript::parse("1:, ::3"), .dtypes = {}}, world);
      std::string all;
      found.each_piece([&](Bytes bytes) { all += as_text(bytes); });
      return all;
    });
    b.same([&](World& world) {
      StatsResult found;
      stats({.read = reading(path), .select = {}, .slice = {}}, world, found);
      std::string text;
      for (const KeyStats& k : found.tensors)
        text += k.key + std::to_string(k.stats.mean) + " " + std::to_string(k.stats.deviations) + "\n";
      return text;
    });
    b.same([&](World& world) {
      CheckpointReader reader({.source = {.path = path}, .select = {}, .map = {}, .extra_memory = kGiB, .threads = 2}, world);
      const Catalog& c = reader.catalog();
      const Dims dims = c.dims(c.tensors[0]);
      std::string all(volume(dims) * sizeof(float), '\0');
      CheckpointReader::Part part{.entry = 0, .axes = {}, .dtype = DType::float32, .to = std::as_writable_bytes(std::span(all)).data()};
      while (reader.entries()[part.entry].is_blob()) ++part.entry;
      const Numbers dense = row_major(dims);
      for (size_t d = 0; d < dims.size(); ++d) part.strides.push_back(dense[d] * int64_t{sizeof(float)});
      reader.read({part}, 0, world);
      return all;
    });
  }
}

TEST_CASE("models and folders are written to the disk from any store, with the bytes that they have from a disk") {
  Both b;
  const auto made = [](FakeIo& io) {
    std::string text;
    for (const std::string& path : io.paths())
      if (path.starts_with("/out")) text += path + "\n" + io.text_of(path);
    return text;
  };
  for (const std::string& path : b.kinds)
    for (World* world : {&b.on_disk, &b.in_store}) {
      const std::string out = "/out" + std::to_string(&path - b.kinds.data());
      write_to(*world, reading(path), out + ".safetensors", OutputKind::kSafetensors);
      write_to(*world, reading(path), out + ".pt", OutputKind::kTorch);
      write_to(*world, reading(path), out + "-dcp", OutputKind::kDcp);
      write_to(*world, reading(path), out + "-hf", OutputKind::kShards);
    }
  CHECK(made(b.output).size() > 14'000'000);
  CHECK(made(b.output) == made(b.disk));
}

TEST_CASE("what a request names beside its checkpoint is read from the store, too") {
  Both b;
  const auto put = [&](const std::string& name, const std::string& text) {
    b.disk.put(name, text);
    b.objects.put(name, text);
  };
  put("mem://bucket/layout.json", R"({"world_size": 2, "like": ")" + b.kinds[0] + R"("})");
  put("mem://bucket/own.map", "family own\nmodel.layers.0.weight = first\nmodel.layers.1.weight [a b] = second [b a]\n");
  put("mem://bucket/assets/config.json", R"({"model_type": "own", "dtype": "float32"})");
  VerifyResult verified;
  verify({.read = reading(b.kinds[0]), .manifest = "-"}, b.on_disk, verified);
  put("mem://bucket/manifest.json", verified.manifest);

  OutputRequest laid_out{.path = "/out-laid", .kind = OutputKind::kDcp}, alike = laid_out;
  laid_out.layout.file = "mem://bucket/layout.json";
  alike.layout.like = b.kinds[0];
  const OutputRequest folder{.path = "/out-hf", .kind = OutputKind::kShards, .max_shard_bytes = kGiB, .assets = "mem://bucket/assets"};
  const MapRequest map{.map = "mem://bucket/own.map", .config = "mem://bucket/assets/config.json", .settings = {}, .to = {}};
  for (WriteRequest request : {WriteRequest{.output = laid_out}, WriteRequest{.output = alike, .expect = {.reference = b.kinds[1]}},
                               WriteRequest{.map = map, .output = folder}}) {
    request.read = reading(b.kinds[0]), request.sync = false, request.replace = Replace::kYes;
    b.same([&](World& world) {
      WriteResult result;
      write(request, world, result, [] {});
      FakeIo& made = &world == &b.on_disk ? b.disk : b.output;
      std::string text;
      for (const std::string& path : made.paths())
        if (path.starts_with(request.output.path)) text += path + made.text_of(path);
      return text;
    });
  }
  b.same([&](World& world) {
    VerifyResult found;
    verify({.read = reading(b.kinds[0]), .against = "mem://bucket/manifest.json"}, world, found);
    return text_of(found.findings) + std::to_string(found.compared_keys) + " " + std::to_string(found.compared_files);
  });
}

TEST_CASE("an edited copy of a checkpoint in a store shares nothing, and one in place is refused") {
  Both b;
  const auto run = [&](EditRequest request) {
    request.source = {.path = b.kinds[0]}, request.max_memory = kGiB, request.threads = 2, request.sync = false;
    EditResult result;
    edit(request, b.in_store, result, [] {});
    return result;
  };
  const auto request_for = [](const std::string& out, Sharing sharing) {
    return EditRequest{.source = {}, .select = {}, .torch = {}, .out = out, .sharing = sharing};
  };
  const EditResult copied = run(request_for("/out", Sharing::kBest));
  CHECK(copied.files_of[static_cast<size_t>(Sharing::kCopy)] == 3);
  CHECK(b.output.text_of("/out/__1_0.distcp") == b.disk.text_of(b.kinds[0] + "/__1_0.distcp"));
  const std::vector<std::string> before = b.output.paths();
  CHECK(error_id([&] { run(request_for("/linked", Sharing::kLink)); }) == "share_impossible");
  CHECK(error_id([&] { run(request_for("", Sharing::kBest)); }) == "store_read_only");
  CHECK(b.output.paths() == before);
}

TEST_CASE("a store that takes long to answer gets as many requests as it wants, unless a number is asked for") {
  Both b;
  for (const unsigned threads : {0u, 3u})
    for (const unsigned requests : {0u, 60u}) {
      b.objects.requests = requests;
      WriteResult result;
      WriteRequest request{
          .read = reading(b.kinds[0], threads), .output = {.path = "/out.pt", .kind = OutputKind::kTorch}, .dry_run = true};
      write(request, b.in_store, result, [] {});
      CHECK(result.workers == (threads > 0 ? threads : requests > 0 ? requests : default_workers()));
    }
}

TEST_CASE("what describes a checkpoint in many files is read from as many at once as the store wants") {
  Both b;
  const auto read_at_once = [&](unsigned requests) {
    b.objects.requests = requests, b.objects.most_reading = 0;
    const OpenedCatalog opened = read_checkpoint(b.objects, "mem://bucket/many", {});
    CHECK(opened.catalog.files.size() == 2);
    return b.objects.most_reading.load();
  };
  const OutputRequest shards{.path = "/many", .kind = OutputKind::kShards, .max_shard_bytes = 100'000};
  WriteResult result;
  write({.read = reading(b.kinds[0]), .output = shards, .sync = false}, b.in_store, result, [] {});
  for (const std::string& path : b.output.paths())
    if (path.starts_with("/many/")) b.objects.put("mem://bucket" + path, b.output.text_of(path));
  b.objects.milliseconds = 5;
  CHECK(read_at_once(8) > 1);
  CHECK(read_at_once(0) == 1);
}
