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
  const uint64_t bytes = kBytes[rng() % 6];
  return {.unit_bytes = bytes, .min_run = kRuns[rng() % 4], .plane_bytes = 4 * bytes, .pass_gap = 0};
}

// For each floating-point tensor a dtype of its own, or none.
inline DtypeOptions random_casts(Rng& rng, const MadeCheckpoint& made) {
  DtypeOptions o{.dtype = std::nullopt, .rules = {}, .raw = true};
  for (const MadeTensor& t : made.tensors) {
    const DType wanted = random_dtype(rng, {});
    if (is_cast_target(t.dtype) && is_cast_target(wanted)) o.rules.push_back({t.key, wanted});
  }
  return o;
}

struct RandomRun {
  explicit RandomRun(uint64_t seed, bool safetensors = false, const RandomOptions& o = {}, bool casts = false)
      : made(random_checkpoint(seed, o)), io(fake) {
    made.put(fake, "ckpt");
    Rng rng(seed + 1);
    opened.emplace(io, "ckpt", casts ? SelectOptions{.dtypes = random_casts(rng, made)} : SelectOptions{});
    LayoutOptions layout;
    layout.units = random_units(rng);
    if (safetensors && rng() % 2 == 0) layout.max_shard_bytes = rng() % 500 + 1;
    plan = safetensors ? opened->safetensors(layout) : opened->torch(layout);
    io.reset();
  }

  ExecuteReport execute(Sink& sink, unsigned workers = 1) {
    Progress progress;
    const StopFlag stop{0};
    return dcp::execute(plan, {opened->catalog, opened->resolved, opened->files}, sink, {.workers = workers}, {progress, stop});
  }
  // What belongs into a region of the plan: what a loader sees, in the region's dtype.
  std::string expected(const Region& r) const {
    const MadeTensor& t = made.tensors[plan.tensors[r.tensor].id];
    const std::string loaded = model_bytes(t);
    std::string out(volume(t.dims) * bytes_of(r.dtype), '\0');
    convert(reinterpret_cast<std::byte*>(out.data()), r.dtype, as_bytes(loaded).data(), t.dtype, volume(t.dims));
    return out;
  }

  MadeCheckpoint made;
  FakeIo fake;
  CountingIo io;
  std::optional<Opened> opened;
  Plan plan;
};

}  // namespace dcp::test
