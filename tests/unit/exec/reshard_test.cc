// DCP folders from end to end: random checkpoints in random layouts, read back as a checkpoint of their own.
#include <catch2/catch_test_macros.hpp>

#include "base/error_line.h"
#include "base/seeds.h"
#include "catalog/made_blobs.h"
#include "exec/random_run.h"
#include "plan/dcp_layout.h"

using namespace dcp;
using namespace dcp::test;

namespace {

const StopFlag kGoOn{0};

ExecuteReport run_plan(const Plan& plan, Opened& from, Sink& sink, unsigned workers) {
  Progress progress;
  return execute(plan, {from.catalog, from.resolved, from.files}, sink, {.workers = workers}, {progress, kGoOn});
}

void put(FakeIo& io, const std::string& folder, const Plan& plan, const MemorySink& sink) {
  for (size_t f = 0; f < plan.files.size(); ++f) io.put(folder + "/" + plan.files[f].name, sink.files[f]);
}

DcpLayoutOptions random_layout(Rng& rng) {
  DcpLayoutOptions o{.limits = {}, .units = random_units(rng), .world_size = static_cast<uint32_t>(1 + rng() % 9), .mesh = {}, .rules = {}};
  if (rng() % 2 == 0) return o;
  o.mesh.sizes = {static_cast<uint32_t>(1 + rng() % 4), static_cast<uint32_t>(1 + rng() % 4)};
  o.world_size = static_cast<uint32_t>(o.mesh.ranks());
  for (const char* key : {"t0", "t1", "t2", "t3"}) {
    PlacementRule rule{.glob = key, .placements = {}};
    for (int m = 0; m < 2; ++m) rule.placements.push_back({static_cast<Placement::Kind>(rng() % 3), static_cast<int64_t>(rng() % 3)});
    o.rules.push_back(rule);
  }
  return o;
}

// As far as the tensors have the dims that the rules name.
void drop_impossible(DcpLayoutOptions& o, const MadeCheckpoint& made) {
  std::erase_if(o.rules, [&](const PlacementRule& rule) {
    for (const MadeTensor& t : made.tensors)
      for (const Placement& p : rule.placements)
        if (t.key == rule.glob && p.kind != Placement::Kind::kReplicate && p.dim >= static_cast<int64_t>(t.dims.size())) return true;
    return false;
  });
}

using Boxes = std::vector<std::pair<Ints, Ints>>;
Boxes live_boxes(const Catalog& c, const Tensor& t) {
  Boxes boxes;
  for (uint32_t n = 0; n < t.chunk_count; ++n) {
    const BoxView b = c.box(t, n);
    if (volume(b.sizes) > 0 || volume(c.dims(t)) == 0)
      boxes.emplace_back(Ints(b.offsets.begin(), b.offsets.end()), Ints(b.sizes.begin(), b.sizes.end()));
  }
  return boxes;
}

// The payload of every tensor of an opened checkpoint, through the layout that other tests prove.
std::vector<std::string> payloads(Opened& opened) {
  const Plan plan = opened.torch();
  MemorySink sink(plan);
  REQUIRE(run_plan(plan, opened, sink, 1).damage.empty());
  std::vector<std::string> out(plan.regions.size());
  for (const Region& r : plan.regions) {
    const Tensor& t = opened.catalog.tensors[plan.tensors[r.tensor].id];
    out[plan.tensors[r.tensor].id] = sink.files[0].substr(r.file_offset, opened.catalog.tensor_bytes(t));
  }
  return out;
}

}  // namespace

TEST_CASE("what is written is a checkpoint with the same tensors, each byte written once") {
  for (uint64_t seed = 1; seed <= seeds(1000); ++seed) {
    CAPTURE(seed);
    RandomRun run(seed);
    Rng rng(seed + 7);
    DcpLayoutOptions options = random_layout(rng);
    drop_impossible(options, run.made);
    const Plan plan = plan_dcp({run.opened->catalog, run.opened->resolved}, run.opened->selection, options);
    MemorySink sink(plan);
    run.io.reset();
    const ExecuteReport report = run_plan(plan, *run.opened, sink, static_cast<unsigned>(1 + rng() % 3));
    REQUIRE(report.damage.empty());
    REQUIRE(sink.each_byte_once());
    REQUIRE(report.bytes_written == plan.bytes_to_write);
    for (ItemId i = 0; i < plan.checks.size(); ++i) {
      if (plan.checks[i] != CrcCheck::kFromUnits) continue;
      const Item& item = run.opened->catalog.items[i];
      const ItemInfo& info = run.opened->resolved.items[i];
      const bool packed = item.transforms != 0;
      REQUIRE(run.io.times(run.opened->catalog.file_path(item.file), packed ? item.offset : info.record,
                           packed ? item.length : info.record_bytes) == std::pair(1u, 1u));
    }

    put(run.fake, "out", plan, sink);
    Opened again(run.fake, "out");
    REQUIRE(again.catalog.tensors.size() == run.made.tensors.size());
    const std::vector<std::string> got = payloads(again);  // checks every CRC
    for (size_t t = 0; t < got.size(); ++t) {
      CAPTURE(run.made.tensors[t].key);
      REQUIRE(again.catalog.key(again.catalog.tensors[t]) == run.made.tensors[t].key);
      REQUIRE(got[t] == model_bytes(run.made.tensors[t]));
    }
  }
}

TEST_CASE("there and back: the boxes of the source, and its bytes") {
  for (uint64_t seed = 1; seed <= seeds(200); ++seed) {
    CAPTURE(seed);
    RandomRun run(seed);
    const Plan there = plan_dcp({run.opened->catalog, run.opened->resolved}, run.opened->selection,
                                {.limits = {}, .units = {.unit_bytes = 100}, .world_size = 8, .mesh = {}, .rules = {}});
    MemorySink first(there);
    run_plan(there, *run.opened, first, 2);
    put(run.fake, "eight", there, first);
    Opened eight(run.fake, "eight");
    DcpLayoutOptions like{
        .limits = {}, .units = {.unit_bytes = 40}, .world_size = std::max(1u, ranks_shown(run.opened->catalog)), .mesh = {}, .rules = {}};
    like.like = &run.opened->catalog;
    const Plan back = plan_dcp({eight.catalog, eight.resolved}, eight.selection, like);
    CHECK(back.dcp->default_layout.empty());
    MemorySink second(back);
    run_plan(back, eight, second, 2);
    put(run.fake, "back", back, second);
    Opened again(run.fake, "back");
    for (TensorId t = 0; t < again.catalog.tensors.size(); ++t)
      REQUIRE(live_boxes(again.catalog, again.catalog.tensors[t]) == live_boxes(run.opened->catalog, run.opened->catalog.tensors[t]));
    REQUIRE(payloads(again) == payloads(*run.opened));
  }
}

TEST_CASE("byte items and tensors that are not plain are copied byte by byte, and their records checked") {
  Rng rng(5);
  for (const bool zstd : {false, true}) {
    CAPTURE(zstd);
    MadeCheckpoint made;
    made.blobs = {nested_blob(rng, "optim", {5, 0, 2000000}), number_blob("epoch", 3)};
    for (MadeBlob& b : made.blobs) b.zstd = zstd;
    made.tensors = {{"q", DType::qint8, {9}, {quantized_chunk(rng, 9)}}, {"w", DType::int16, {3}, {whole_chunk({3})}}};
    FakeIo io;
    made.put(io, "ckpt");
    const auto plan_of = [](Opened& o) {
      return plan_dcp({o.catalog, o.resolved}, o.selection, {.limits = {}, .units = {}, .world_size = 2, .mesh = {}, .rules = {}});
    };
    Opened opened(io, "ckpt", {}, 1, BlobUse::kWhole);
    const Plan plan = plan_of(opened);
    MemorySink sink(plan);
    const ExecuteReport report = run_plan(plan, opened, sink, 2);
    REQUIRE(report.damage.empty());
    CHECK(sink.each_byte_once());
    CHECK(report.records_checked > 10);
    REQUIRE(plan.dcp->kept_as_is.size() == 1);
    CHECK(plan.dcp->kept_as_is[0].key == "q");
    put(io, "out", plan, sink);
    Opened again(io, "out");
    CHECK(again.resolved.blobs.at(again.catalog.item_of(0u)).item.storages.size() == 3);
    for (BlobId b = 0; b < 2; ++b) {
      const Item& item = again.catalog.items[again.catalog.item_of(b)];
      CHECK(item.transforms == 0);
      if (!zstd) CHECK(item.length == made.blobs[b].length);
      CHECK(again.catalog.file_name(item.file) == "__0_0.distcp");
    }
    if (zstd) continue;
    // A flipped byte anywhere in a record of a copied item is found.
    const std::string whole = io.text_of("ckpt/__0_0.distcp");
    for (const CopyRange& copy : plan.copies) {
      for (uint32_t n = copy.first_check; n < copy.first_check + copy.check_count; ++n) {
        std::string bytes = whole;
        bytes[copy.source_offset + plan.copy_checks[n].at + plan.copy_checks[n].bytes - 1] ^= 1;
        io.put("ckpt/__0_0.distcp", bytes);
        DataFiles files(io, opened.catalog, FollowLinks::kCacheOnly);
        MemorySink unused(plan);
        Progress progress;
        const ExecuteReport damaged = execute(plan, {opened.catalog, opened.resolved, files}, unused, {.workers = 1}, {progress, kGoOn});
        REQUIRE(damaged.damage.size() == 1);
        CHECK(damaged.damage[0].place.offset == copy.source_offset + plan.copy_checks[n].at);
      }
    }
    io.put("ckpt/__0_0.distcp", whole);
  }
}

TEST_CASE("dicts of plain values become one object for torch before 2.4, storages and all") {
  Rng rng(6);
  for (const bool zstd : {false, true}) {
    CAPTURE(zstd);
    MadeCheckpoint made;
    made.blobs = {nested_blob(rng, "s.a", {5, 300}), number_blob("s.b.c", 3), nested_blob(rng, "s.b.d", {70}), number_blob("m.note", 4)};
    made.blobs[0].path = {"s", "a"};
    made.blobs[1].path = {"s", "b", "c"};
    made.blobs[2].path = {"s", "b", "d"};
    made.blobs[3].path = {"m", "note"};
    for (MadeBlob& b : made.blobs) b.zstd = zstd;
    made.tensors = {{"m.w", DType::int16, {3}, {whole_chunk({3})}, {"m", "w"}}};
    FakeIo io;
    made.put(io, "ckpt");
    Opened opened(io, "ckpt");
    DcpLayoutOptions options{.limits = {}, .units = {}, .world_size = 2, .mesh = {}, .rules = {}};
    options.torch = {.version = 203, .requested = true};
    const Plan plan = plan_dcp({opened.catalog, opened.resolved}, opened.selection, options);
    CHECK(plan.dcp->containers == 1);
    MemorySink sink(plan);
    REQUIRE(run_plan(plan, opened, sink, 2).damage.empty());
    CHECK(sink.each_byte_once());
    put(io, "out", plan, sink);
    Opened again(io, "out");
    REQUIRE(again.catalog.blobs.size() == 2);
    CHECK(again.catalog.key(again.catalog.blobs[0]) == "s");
    CHECK(again.catalog.key(again.catalog.blobs[1]) == "m.note");
    const BlobItem& s_item = again.resolved.blobs.at(again.catalog.item_of(0u)).item;
    REQUIRE(s_item.storages.size() == 3);
    CHECK(s_item.storages[2].key == "2");
    const std::string file = io.text_of("out/__0_0.distcp");
    CHECK(crc32(as_bytes(std::string_view(file).substr(s_item.storages[1].payload, s_item.storages[1].bytes))) == s_item.storages[1].crc);
  }
}

TEST_CASE("bytes that are no archive are copied as they are; they have no CRC") {
  FakeIo io;
  MadeCheckpoint made;
  made.blobs = {number_blob("epoch", 3)};
  made.put(io, "ckpt");
  std::string file = io.text_of("ckpt/__0_0.distcp");
  std::ranges::fill(file, 'x');
  io.put("ckpt/__0_0.distcp", file);
  CHECK(error_id([&] { Opened o(io); }) == "blob_not_archive");
  Opened opened(io, "ckpt", {}, 1, BlobUse::kWhole);
  const Plan plan =
      plan_dcp({opened.catalog, opened.resolved}, opened.selection, {.limits = {}, .units = {}, .world_size = 1, .mesh = {}, .rules = {}});
  MemorySink sink(plan);
  CHECK(run_plan(plan, opened, sink, 1).records_checked == 0);
  CHECK(sink.files[0] == file);
}
