// What a map makes of a checkpoint, written by every layout: random index maps over random checkpoints, against a model that copies
// element by element.
#include <catch2/catch_test_macros.hpp>
#include <set>

#include "base/seeds.h"
#include "exec/counting_io.h"
#include "exec/execute.h"
#include "exec/memory_sink.h"
#include "exec/random_map.h"
#include "exec/random_run.h"
#include "maps/derive.h"
#include "plan/dcp_layout.h"
#include "plan/opened.h"

using namespace dcp;
using namespace dcp::test;

namespace {

const StopFlag kRunning{0};

// A random map over a random checkpoint, derived, and with random dtypes to be written in.
struct DerivedRun {
  explicit DerivedRun(uint64_t seed, const RandomOptions& o = {}) : random(random_map(seed, o)), io(fake) {
    random.made.put(fake, "ckpt");
    opened.emplace(io);
    derived = derive({opened->catalog, opened->resolved}, random.maps);
    Rng rng(seed + 2);
    SelectOptions select{.dtypes = {.dtype = std::nullopt, .rules = {}, .raw = true}};
    for (const IndexMap& m : random.maps) {
      const DType wanted = random_dtype(rng, o);
      if (rng() % 3 == 0 && is_cast_target(m.dtype) && is_cast_target(wanted)) select.dtypes.rules.push_back({m.key, wanted});
    }
    selection = select_keys(derived.catalog, select);
  }
  ExecuteReport execute(const Plan& plan, Sink& sink, unsigned workers) {
    Progress progress;
    return dcp::execute(plan, {derived.catalog, derived.resolved, opened->files}, sink, {.workers = workers}, {progress, kRunning});
  }
  // What belongs into a region.
  std::string expected(const Plan& plan, const Region& r) const {
    const IndexMap& m = random.maps[plan.tensors[r.tensor].id];
    const std::string whole = random.model(m);
    std::string loaded;
    const BoxView box = plan.box(r);
    const Ints strides = row_major_strides(m.shape);
    for_each_index(Ints(box.sizes.begin(), box.sizes.end()), [&](const Ints& index) {
      uint64_t at = 0;
      for (size_t d = 0; d < index.size(); ++d) at += static_cast<uint64_t>((box.offsets[d] + index[d]) * strides[d]);
      loaded += whole.substr(at * bytes_of(m.dtype), bytes_of(m.dtype));
    });
    std::string out(volume(box.sizes) * bytes_of(r.dtype), '\0');
    if (r.dtype == m.dtype) return loaded;
    cast(reinterpret_cast<std::byte*>(out.data()), r.dtype, as_bytes(loaded).data(), m.dtype, volume(box.sizes), {});
    return out;
  }

  RandomMap random;
  FakeIo fake;
  CountingIo io;
  std::optional<Opened> opened;
  Derived derived;
  Selection selection;
};

void check_written(DerivedRun& run, const Plan& plan, unsigned workers) {
  MemorySink sink(plan);
  run.io.reset();
  const ExecuteReport report = run.execute(plan, sink, workers);
  REQUIRE(report.damage.empty());
  REQUIRE(sink.each_byte_once());
  REQUIRE(report.bytes_written == plan.bytes_to_write);
  REQUIRE(report.worker_bytes <= plan.worker_bytes);
  for (const Region& r : plan.regions) {
    CAPTURE(run.random.maps[plan.tensors[r.tensor].id].key);
    REQUIRE((sink.files[r.file].substr(r.file_offset, plan.payload_bytes(r)) == run.expected(plan, r)));
  }
}

// Each byte of a record is read once where units sum it, be it seen in part only, unless tied tensors are made of it, too.
void check_reads(DerivedRun& run, const Plan& plan) {
  const Catalog& c = run.derived.catalog;
  const std::vector<ItemId>& record = run.derived.resolved.views.record;
  std::set<ItemId> tied;
  for (ItemId i = 0; i < plan.checks.size(); ++i)
    if (plan.checks[i] != CrcCheck::kFromUnits) tied.insert(record[i]);
  for (ItemId i = 0; i < plan.checks.size(); ++i) {
    const ItemInfo& info = run.derived.resolved.items[i];
    if (plan.checks[i] != CrcCheck::kFromUnits || plan.sum_of(i) != i || tied.contains(record[i]) || c.items[i].transforms != 0) continue;
    REQUIRE(run.io.times(c.file_path(c.items[i].file), info.record, info.record_bytes) == std::pair(1u, 1u));
  }
}

// A bit of any record that has a CRC, also one that no tensor shows.
void check_damage(DerivedRun& run, const Plan& plan, Rng& rng) {
  const Catalog& c = run.derived.catalog;
  std::vector<ItemId> items;
  for (ItemId i = 0; i < plan.checks.size(); ++i)
    if (plan.checks[i] != CrcCheck::kUnchecked && c.items[i].transforms == 0) items.push_back(i);
  if (items.empty()) return;
  const ItemId item = items[rng() % items.size()];
  const std::string path = c.file_path(c.items[item].file), whole = run.fake.text_of(path);
  std::string bytes = whole;
  const ItemInfo& info = run.derived.resolved.items[item];
  bytes[info.record + rng() % info.record_bytes] ^= 1;
  run.fake.put(path, bytes);
  MemorySink sink(plan);
  DataFiles files(run.fake, c, FollowLinks::kCacheOnly);
  Progress progress;
  const ExecuteReport report = dcp::execute(plan, {c, run.derived.resolved, files}, sink, {.workers = 2}, {progress, kRunning});
  REQUIRE(report.damage.size() == 1);
  REQUIRE(report.damage[0].place.offset == info.record);
  run.fake.put(path, whole);
}

DcpLayoutOptions random_folder(Rng& rng) {
  return {.limits = {}, .units = random_units(rng), .world_size = static_cast<uint32_t>(1 + rng() % 5), .mesh = {}, .rules = {}};
}

}  // namespace

TEST_CASE("a derived checkpoint is written as the model says, by every layout") {
  for (uint64_t seed = 1; seed <= seeds(1500); ++seed) {
    CAPTURE(seed);
    DerivedRun run(seed, {.safetensors_only = seed % 3 == 1});
    Rng rng(seed);
    LayoutOptions layout;
    layout.units = random_units(rng);
    const Catalog& c = run.derived.catalog;
    const auto workers = static_cast<unsigned>(1 + rng() % 3);
    const Plan plan = seed % 3 == 0   ? plan_torch({c, run.derived.resolved}, run.selection, layout)
                      : seed % 3 == 1 ? plan_safetensors({c, run.derived.resolved}, run.selection, layout)
                                      : plan_dcp({c, run.derived.resolved}, run.selection, random_folder(rng));
    check_written(run, plan, workers);
    check_reads(run, plan);
    check_damage(run, plan, rng);
  }
}

namespace {

// A tensor t0 of these dims, its rows dealt to two files, and a map of it.
struct HalfDealt {
  HalfDealt(const Ints& dims, const std::vector<IndexMap>& maps, const UnitOptions& units = {}) {
    MadeTensor t{.key = "t0", .dtype = DType::bfloat16, .dims = dims, .chunks = {}};
    for (unsigned half = 0; half < 2; ++half) {
      MadeChunk c{.offsets = Ints(dims.size(), 0), .sizes = dims, .file = half};
      c.sizes[0] /= 2;
      c.offsets[0] = half * c.sizes[0];
      t.chunks.push_back(c);
    }
    made.tensors = {t};
    made.put(io, "ckpt");
    opened.emplace(io);
    derived = derive({opened->catalog, opened->resolved}, maps);
    plan = plan_safetensors({derived.catalog, derived.resolved}, select_keys(derived.catalog, {}), {.limits = {}, .units = units});
  }
  // The one file of a plan, without its header.
  std::string written(const Plan& p, const Catalog& catalog, const Resolved& resolved) {
    MemorySink sink(p);
    Progress progress;
    const ExecuteReport report = dcp::execute(p, {catalog, resolved, opened->files}, sink, {.workers = 2}, {progress, kRunning});
    REQUIRE(report.damage.empty());
    REQUIRE(report.worker_bytes <= p.worker_bytes);
    return sink.files[0].substr(p.regions[0].file_offset);
  }
  bool sums_on_the_way() const { return plan.records.empty() && std::ranges::find(plan.checks, CrcCheck::kUnchecked) == plan.checks.end(); }
  MadeCheckpoint made;
  FakeIo io;
  std::optional<Opened> opened;
  Derived derived;
  Plan plan;
};

IndexMap one_block(const Ints& shape, const std::vector<IndexAxis>& axes, const Ints& source_at) {
  return {.key = "m",
          .dtype = DType::bfloat16,
          .shape = shape,
          .blocks = {{.source = 0, .target_at = Ints(shape.size(), 0), .source_at = source_at, .axes = axes}}};
}

}  // namespace

TEST_CASE("units hold whole heads where rotary pairs become halves") {
  // [(h 2 d) i] = [(h d 2) i] with h = 32, d = 64, i = 1024
  const HalfDealt made({4096, 1024},
                       {one_block({4096, 1024}, {{32, 0, 128, 0, 128}, {2, 0, 64, 0, 1}, {64, 0, 1, 0, 2}, {1024, 1, 1, 1, 1}}, {0, 0})});
  CHECK(made.plan.groups[0].kind == Group::Kind::kGrid);
  CHECK(made.plan.numbers[made.plan.groups[0].steps_at] % 128 == 0);
  CHECK(made.sums_on_the_way());
}

TEST_CASE("a transposed plane is one unit") {
  HalfDealt made({1500, 2000}, {one_block({2000, 1500}, {{1500, 1, 1, 0, 1}, {2000, 0, 1, 1, 1}}, {0, 0})});
  CHECK(made.plan.units == 1);
  CHECK(made.sums_on_the_way());
  // It is read in parts, the last of which are no whole squares.
  CHECK(made.plan.worker_bytes < 2 * 6000000 + (1 << 20));  // assembled, and packed to be written
  const auto& [catalog, resolved] = std::tie(made.opened->catalog, made.opened->resolved);
  const std::string plain = made.written(plan_safetensors({catalog, resolved}, select_keys(catalog, {}), {}), catalog, resolved);
  const std::string turned = made.written(made.plan, made.derived.catalog, made.derived.resolved);
  REQUIRE(turned.size() == plain.size());
  size_t wrong = 0;
  for (size_t i = 0; i < 1500; ++i)
    for (size_t k = 0; k < 2000; ++k) wrong += turned.compare(2 * (k * 1500 + i), 2, plain, 2 * (i * 2000 + k), 2) != 0 ? 1 : 0;
  CHECK(wrong == 0);
  // Under a cap of 64 MiB it is cut, and still read in runs that are worth it.
  const UnitOptions capped{.plane_bytes = plane_bytes(64 << 20)};
  const HalfDealt small({1500, 2000}, {one_block({2000, 1500}, {{1500, 1, 1, 0, 1}, {2000, 0, 1, 1, 1}}, {0, 0})}, capped);
  CHECK(small.plan.units > 1);
  CHECK(small.plan.worker_bytes <= 6 << 20);
}

TEST_CASE("one record is read once for the tensors that it becomes") {
  std::vector<IndexMap> maps;
  for (int64_t e = 0; e < 6; ++e) {
    maps.push_back(one_block({700, 900}, {{700, 0, 1, 1, 1}, {900, 1, 1, 2, 1}}, {e, 0, 0}));
    maps.back().key += std::to_string(e);
  }
  const HalfDealt made({6, 700, 900}, maps);
  CHECK(made.sums_on_the_way());
  CHECK(made.plan.bytes_to_read == 6 * 700 * 900 * 2);
  maps.pop_back();  // what nobody takes is read for the sum alone
  const HalfDealt less({6, 700, 900}, maps);
  REQUIRE(less.plan.records.size() == 1);
  CHECK(less.plan.records[0].bytes == 700 * 900 * 2);
  CHECK(less.plan.bytes_to_read == 6 * 700 * 900 * 2);
}

TEST_CASE("a compressed item is decoded once for all tensors that it becomes") {
  MadeCheckpoint made;
  made.tensors = {whole_tensor("t0", DType::bfloat16, {6, 70, 90})};
  made.tensors[0].chunks[0].zstd = true;
  FakeIo fake;
  made.put(fake, "ckpt");
  CountingIo io(fake);
  Opened opened(io);
  std::vector<IndexMap> maps;
  for (int64_t e = 0; e < 6; ++e) {
    maps.push_back(one_block({90, 70}, {{70, 1, 1, 1, 1}, {90, 0, 1, 2, 1}}, {e, 0, 0}));
    maps.back().key += std::to_string(e);
  }
  const Derived derived = derive({opened.catalog, opened.resolved}, maps);
  const Plan plan = plan_safetensors({derived.catalog, derived.resolved}, select_keys(derived.catalog, {}), {});
  REQUIRE(plan.groups.size() == 1);
  CHECK(plan.groups[0].kind == Group::Kind::kScatter);
  CHECK(plan.groups[0].count == 6);
  MemorySink sink(plan);
  Progress progress;
  io.reset();
  const ExecuteReport report = execute(plan, {derived.catalog, derived.resolved, opened.files}, sink, {.workers = 2}, {progress, kRunning});
  CHECK(report.damage.empty());
  CHECK(report.records_checked == 1);
  CHECK(sink.each_byte_once());
  const Item& item = opened.catalog.items[0];
  CHECK(io.times(opened.catalog.file_path(item.file), item.offset, item.length) == std::pair(1u, 1u));
}
