// What a map makes of a checkpoint, written by every layout: random index maps over random checkpoints, against a model that copies
// element by element.
#include <catch2/catch_test_macros.hpp>

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
    derived = derive(opened->catalog, opened->resolved, random.maps);
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
    return dcp::execute(plan, derived.catalog, derived.resolved, opened->files, sink, {.workers = workers}, progress, kRunning);
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

DcpLayoutOptions random_folder(Rng& rng) {
  return {.limits = {}, .units = random_units(rng), .world_size = static_cast<uint32_t>(1 + rng() % 5), .mesh = {}, .rules = {}};
}

}  // namespace

TEST_CASE("a derived checkpoint is written as the model says, by every layout") {
  for (uint64_t seed = 1; seed <= 1500; ++seed) {
    CAPTURE(seed);
    DerivedRun run(seed, {.safetensors_only = seed % 3 == 1});
    Rng rng(seed);
    LayoutOptions layout;
    layout.units = random_units(rng);
    const Catalog& c = run.derived.catalog;
    const auto workers = static_cast<unsigned>(1 + rng() % 3);
    if (seed % 3 == 0) check_written(run, plan_torch(c, run.derived.resolved, run.selection, layout), workers);
    if (seed % 3 == 1) check_written(run, plan_safetensors(c, run.derived.resolved, run.selection, layout), workers);
    if (seed % 3 == 2) check_written(run, plan_dcp(c, run.derived.resolved, run.selection, random_folder(rng)), workers);
  }
}
