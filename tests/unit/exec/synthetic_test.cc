// Synthetic checkpoints read back: the same tensors out of every layout, and no fault in any.
#include "exec/synthetic.h"

#include <catch2/catch_test_macros.hpp>
#include <cmath>
#include <cstring>
#include <set>

#include "base/error_line.h"
#include "base/fake_io.h"
#include "exec/execute.h"
#include "exec/memory_sink.h"
#include "plan/opened.h"

using namespace dcp;
using namespace dcp::test;
using Layout = SyntheticSpec::Layout;

namespace {

constexpr Layout kLayouts[] = {Layout::kShard0, Layout::kShard1, Layout::kWhole};

struct Synthetic {
  explicit Synthetic(const SyntheticSpec& spec, unsigned workers = 2) {
    const StopFlag stop{0};
    report = write_synthetic(io, "synthetic", spec, {.sync = false, .workers = workers}, stop);
    opened.emplace(io, "synthetic");
  }
  // Consolidated, its records checked on the way.
  std::string consolidated() {
    const Plan plan = opened->safetensors();
    MemorySink sink(plan);
    Progress progress;
    const StopFlag stop{0};
    const ExecuteReport done = execute(plan, {opened->catalog, opened->resolved, opened->files}, sink, {.workers = 1}, {progress, stop});
    CHECK(done.damage.empty());
    CHECK(done.records_checked == report.items);
    CHECK(plan.tensor_bytes == report.tensor_bytes);
    return sink.files.at(0);
  }

  FakeIo io;
  SyntheticReport report;
  std::optional<Opened> opened;
};

}  // namespace

TEST_CASE("the same tensors come out of every layout, of any number of ranks and workers") {
  for (const DType dtype : {DType::float32, DType::bfloat16, DType::float64, DType::float16, DType::uint8, DType::complex64}) {
    const SyntheticSpec first{.bytes = 5000, .world_size = 1, .layout = Layout::kWhole, .tensors = 3, .dtype = dtype, .seed = 9};
    const std::string expected = Synthetic(first).consolidated();
    for (const Layout layout : kLayouts) {
      for (const uint32_t world_size : {1u, 2u, 3u, 7u, 64u}) {
        CAPTURE(facts_of(dtype).name, static_cast<int>(layout), world_size);
        SyntheticSpec spec = first;
        spec.layout = layout;
        spec.world_size = world_size;
        Synthetic made(spec, world_size);
        CHECK((made.consolidated() == expected));
        CHECK(structure_findings(OpenedCatalog{made.opened->catalog, {}, {}}).empty());
        CHECK(made.report.tensor_bytes <= spec.bytes);
        CHECK(made.report.items == made.opened->catalog.items.size());
      }
    }
  }
}

TEST_CASE("a seed is a checkpoint of its own, and so is each tensor of it") {
  std::set<std::string> distinct;
  for (const uint64_t seed : {1u, 2u, 3u}) {
    const std::string file = Synthetic({.bytes = 2048, .tensors = 2, .dtype = DType::float32, .seed = seed}).consolidated();
    distinct.insert(file.substr(file.size() - 2048, 1024));
    distinct.insert(file.substr(file.size() - 1024));
  }
  CHECK(distinct.size() == 6);
}

TEST_CASE("floats are between 1 and 2 in size, of either sign") {
  const std::string file = Synthetic({.bytes = 40000, .tensors = 1, .dtype = DType::float32}).consolidated();
  unsigned negative = 0;
  for (size_t at = file.size() - 39000; at + 4 <= file.size(); at += 4) {
    float value;
    std::memcpy(&value, file.data() + at, 4);
    REQUIRE((std::abs(value) >= 1 && std::abs(value) < 2));
    negative += value < 0;
  }
  CHECK(negative > 4000);
  CHECK(negative < 6000);
}

TEST_CASE("what a synthetic checkpoint looks like") {
  const Synthetic made({.bytes = 6 * 4 * 64 * 64, .world_size = 4, .layout = Layout::kShard1, .tensors = 6, .dtype = DType::float32});
  CHECK(made.io.paths() == std::vector<std::string>{"synthetic/.metadata", "synthetic/__0_0.distcp", "synthetic/__1_0.distcp",
                                                    "synthetic/__2_0.distcp", "synthetic/__3_0.distcp"});
  const Catalog& c = made.opened->catalog;
  CHECK(c.key(c.tensors[5]) == "model.layers.5.weight");
  CHECK(std::ranges::equal(c.dims(c.tensors[5]), std::vector<int64_t>{64, 64}));
  CHECK(std::ranges::equal(c.box(c.tensors[5], 2).offsets, std::vector<int64_t>{0, 32}));
  CHECK(made.report.items == 24);
  CHECK(made.report.tensor_bytes == 6 * 4 * 64 * 64);
  uint64_t bytes = 0;
  for (const std::string& path : made.io.paths()) bytes += made.io.text_of(path).size();
  CHECK(made.report.file_bytes == bytes);
  const Selection selection = select_keys(c, {});
  const std::span<const PathPart> path = selection.path(selection.entries[5]);
  REQUIRE(path.size() == 2);
  CHECK(path[0].name == "model");
  CHECK(path[1].name == "layers.5.weight");
}

TEST_CASE("a spec that gives empty tensors is refused, and so is an output that exists") {
  const auto id = [](const SyntheticSpec& spec) { return error_id([&] { Synthetic made(spec); }); };
  CHECK(id({.bytes = 7, .tensors = 2, .dtype = DType::float32}) == "usage");
  CHECK(id({.bytes = 8, .tensors = 2, .dtype = DType::float32}).empty());
  CHECK(id({.bytes = 100, .tensors = 0}) == "usage");
  CHECK(id({.bytes = 100, .world_size = 0, .tensors = 1}) == "usage");
  FakeIo io;
  io.put("synthetic/x", "here");
  const StopFlag stop{0};
  CHECK(error_id([&] { write_synthetic(io, "synthetic", {.bytes = 64, .tensors = 1}, {.sync = false}, stop); }) == "output_exists");
  CHECK(io.paths() == std::vector<std::string>{"synthetic/x"});
}
