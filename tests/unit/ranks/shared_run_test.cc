// Several ranks that write one output, each its blocks: all of it, each byte once, the same bytes as one process.
#include <barrier>
#include <catch2/catch_test_macros.hpp>
#include <thread>

#include "base/error_line.h"
#include "base/seeds.h"
#include "catalog/made_blobs.h"
#include "exec/memory_sink.h"
#include "exec/random_run.h"
#include "plan/dcp_layout.h"
#include "ranks/blocks.h"

namespace dcp {
namespace {

// Deals as --gather none does; sums are joined in memory.
struct Joint {
  explicit Joint(uint32_t world) : all(world), parts(world) {}
  std::barrier<> all;
  std::vector<std::vector<RunSums::Part>> parts;
};

class SharedUnits : public UnitSupply {
 public:
  SharedUnits(Joint& joint, uint32_t rank, std::vector<UnitTask> units, test::Opened& opened)
      : joint_(joint), rank_(rank), units_(std::move(units)), opened_(opened) {}
  uint64_t batches() const override { return units_.size(); }
  UnitBatch take(uint64_t n) override { return {.units = {units_[n]}, .pieces = std::make_unique<FilePieces>(opened_.files)}; }
  bool is_shared() const override { return true; }
  void join(RunSums& sums, RunLosses&) override {
    joint_.parts[rank_] = sums.parts();
    joint_.all.arrive_and_wait();
    std::vector<RunSums::Part> joined(joint_.parts[0].size());
    for (const auto& parts : joint_.parts)
      for (size_t i = 0; i < parts.size(); ++i) joined[i].raw ^= parts[i].raw, joined[i].bytes += parts[i].bytes;
    sums.set(joined);
  }

 private:
  Joint& joint_;
  uint32_t rank_;
  std::vector<UnitTask> units_;
  test::Opened& opened_;
};

void write_shared(test::Opened& opened, const Plan& plan, uint32_t world, uint64_t block_bytes, Sink& sink) {
  const Blocks blocks(plan, world, block_bytes);
  const Dealing dealing = deal_by_blocks(plan, opened.catalog, blocks, world);
  Joint joint(world);
  std::vector<std::jthread> ranks;
  std::vector<std::string> failed(world);
  for (uint32_t r = 0; r < world; ++r)
    ranks.emplace_back([&, r] {
      SharedUnits units(joint, r, dealing[r], opened);
      ClippedSink own(sink, blocks, r);
      Progress progress;
      const StopFlag stop{0};
      failed[r] = test::error_line(
          [&] { execute(plan, {opened.catalog, opened.resolved, opened.files}, own, {.workers = 2, .supply = &units}, {progress, stop}); });
    });
  ranks.clear();
  REQUIRE(failed == std::vector<std::string>(world, "no error"));
}

TEST_CASE("Ranks that write one output write each byte of it once") {
  for (uint64_t seed = 1; seed <= test::seeds(60); ++seed) {
    const bool safetensors = seed % 2 == 0;
    test::RandomRun run(seed, safetensors, {.safetensors_only = safetensors});
    test::Opened& opened = *run.opened;
    std::vector<Plan> plans{run.plan};
    // Items small and large, some without elements, in folders of one rank to five.
    test::Rng rng(seed);
    plans.push_back(plan_dcp(
        {opened.catalog, opened.resolved}, opened.selection,
        {.limits = {}, .units = test::random_units(rng), .world_size = 1 + static_cast<uint32_t>(seed % 5), .mesh = {}, .rules = {}}));
    for (const Plan& plan : plans) {
      test::MemorySink alone(plan);
      Progress progress;
      const StopFlag stop{0};
      execute(plan, {opened.catalog, opened.resolved, opened.files}, alone, {}, {progress, stop});
      REQUIRE(alone.each_byte_once());
      for (const uint32_t world : {2u, 3u, 5u}) {
        test::MemorySink together(plan);
        write_shared(opened, plan, world, 1 + rng() % 300, together);
        CAPTURE(seed, world);
        REQUIRE(together.each_byte_once());
        REQUIRE(together.files == alone.files);
      }
    }
  }
}

TEST_CASE("A deflated storage of more than one pass is written once, by all ranks whose blocks it lies in") {
  test::Rng rng(3);
  test::MadeCheckpoint made;
  made.blobs = {test::nested_blob(rng, "optim", {5, 2'000'000})};
  made.blobs[0].deflated = true;
  made.tensors = {test::whole_tensor("w", DType::float32, {100, 1000})};
  test::FakeIo io;
  made.put(io, "ckpt");
  test::Opened opened(io);
  const Plan plan = opened.torch();
  const auto large = std::ranges::find_if(plan.copies, [](const CopyRange& c) { return c.bytes > kPassBytes; });
  REQUIRE(large != plan.copies.end());
  REQUIRE(large->packed != 0);
  for (const uint32_t world : {1u, 2u, 3u}) {
    CAPTURE(world);
    test::MemorySink together(plan);
    write_shared(opened, plan, world, Blocks::kBytes, together);
    CHECK(together.each_byte_once());
    CHECK((together.files[0].substr(large->file_offset, large->bytes) == made.blobs[0].storages[1].bytes));
  }
}

TEST_CASE("A shared run with literals, frames or items needs a sink that keeps this rank's part") {
  test::RandomRun run(2, true, {.safetensors_only = true});
  test::Opened& opened = *run.opened;
  const SourceFacts facts{opened.catalog, opened.resolved};
  const Plan folder = plan_dcp(facts, opened.selection, {.limits = {}, .units = {}, .world_size = 2, .mesh = {}, .rules = {}});
  for (const Plan& plan : {opened.safetensors(), opened.torch(), folder}) {
    Joint joint(1);
    SharedUnits units(joint, 0, {}, opened);
    test::MemorySink sink(plan);
    Progress progress;
    const StopFlag stop{0};
    CHECK(test::error_line([&] {
            execute(plan, {opened.catalog, opened.resolved, opened.files}, sink, {.supply = &units}, {progress, stop});
          }).find("keeps what every rank writes") != std::string::npos);
    CHECK(sink.writes == 0);
  }
}

}  // namespace
}  // namespace dcp
