// One random checkpoint, planned in a random way: everything follows from the seed.
#pragma once

#include "catalog/made_model.h"
#include "catalog/random_checkpoint.h"
#include "exec/counting_io.h"
#include "exec/execute.h"
#include "exec/memory_sink.h"
#include "plan/opened.h"

namespace dcp::test {

inline UnitOptions random_units(Rng& rng) {
  constexpr uint64_t kBytes[] = {16, 40, 64, 256, 1024, 1 << 20};
  constexpr uint64_t kRuns[] = {1, 8, 64, 4096};
  return {.unit_bytes = kBytes[rng() % 6], .least_run = kRuns[rng() % 4], .pass_gap = 0};
}

struct RandomRun {
  explicit RandomRun(uint64_t seed, bool safetensors = false, const RandomOptions& o = {}) : made(random_checkpoint(seed, o)), io(fake) {
    made.put(fake, "ckpt");
    opened.emplace(io);
    Rng rng(seed + 1);
    LayoutOptions layout;
    layout.units = random_units(rng);
    if (safetensors && rng() % 2 == 0) layout.max_shard_bytes = rng() % 500 + 1;
    plan = safetensors ? opened->safetensors(layout) : opened->torch(layout);
    io.reset();
  }

  ExecuteReport execute(Sink& sink, unsigned workers = 1) {
    Progress progress;
    const StopFlag stop{0};
    return dcp::execute(plan, opened->catalog, opened->resolved, opened->files, sink, {.workers = workers}, progress, stop);
  }
  // What belongs into a region of the plan.
  std::string expected(const Region& r) const { return model_bytes(made.tensors[plan.tensors[r.tensor].id]); }

  MadeCheckpoint made;
  FakeIo fake;
  CountingIo io;
  std::optional<Opened> opened;
  Plan plan;
};

}  // namespace dcp::test
