// The training loop on the CPU device: every checkpoint holds one step and no other, in every mode; what is kept; what it comes to.
#include "staging/train.h"

#include <algorithm>
#include <catch2/catch_approx.hpp>
#include <catch2/catch_test_macros.hpp>
#include <csignal>
#include <cstring>
#include <set>

#include "app/save.h"
#include "base/error_line.h"
#include "base/fake_io.h"
#include "catalog/structure.h"
#include "exec/dcp_folder.h"
#include "inputs/open.h"
#include "kernels/kernels.h"
#include "staging/cpu_device.h"

using namespace dcp;
using namespace dcp::test;

namespace {

Workload small() {
  return {.name = "small",
          .tensors = {{"model.a.weight", DType::float32, {40, 50}},
                      {"model.b.weight", DType::bfloat16, {3, 1000}},
                      {"optimizer.state.a.weight.exp_avg", DType::float32, {40, 50}},
                      {"optimizer.state.a.weight.step", DType::float32, {}}}};
}

struct Trained {
  explicit Trained(std::optional<SaveMode> mode, TrainSpec spec, const Workload& w = small()) : device(cpu_device_table(), 0) {
    io.put_folder("run");
    const StopFlag stop{0};
    spec.mode = mode;
    result = train(io, device, w, spec, stop);
  }
  std::set<std::string> steps() const {
    std::set<std::string> names;
    for (const std::string& p : io.paths()) names.insert(p.substr(0, p.rfind('/')));
    return names;
  }
  FakeIo io;
  Device device;
  TrainResult result;
};

// What a tensor's bytes are after `step`.
std::vector<std::byte> expected(const Workload& w, size_t t, uint32_t step) {
  std::vector<std::byte> bytes(tensor_bytes(w.tensors[t]));
  synthetic_values(bytes, w.tensors[t].dtype, 1, static_cast<uint32_t>(t), 0);
  for (size_t i = 0; i < bytes.size(); ++i)
    if (i % 4096 < 64) bytes[i] = stamp_of(step);
  return bytes;
}

// The checkpoint's file holds these bytes somewhere: where exactly, the reading tests know.
bool holds(const FakeIo& io, const std::string& folder, const std::vector<std::byte>& bytes) {
  return io.text_of(folder + "/__0_0.distcp").find(as_text(bytes)) != std::string::npos;
}

const TrainSpec kFast{.folder = "run", .steps = 7, .save_every = 3, .step_ns = 10'000, .keep_latest_k = 0};

}  // namespace

TEST_CASE("in every mode each checkpoint holds its own step, whole") {
  const Workload w = small();
  for (const SaveMode mode : kSaveModes) {
    CAPTURE(name_of(mode));
    const Trained t(mode, kFast);
    CHECK((t.steps() == std::set<std::string>{"run/step-3", "run/step-6", "run/step-7"}));
    for (const uint32_t step : {3u, 6u, 7u}) {
      const std::string folder = "run/step-" + std::to_string(step);
      for (size_t i = 0; i < w.tensors.size(); ++i) CHECK(holds(t.io, folder, expected(w, i, step)));
      CHECK(!holds(t.io, folder, expected(w, 0, step - 1)));
      const FrozenCatalog opened = open_checkpoint(const_cast<FakeIo&>(t.io), folder, {});
      CHECK(structure_findings(*opened).empty());
      CHECK(opened->catalog.tensors.size() == 4);
    }
    REQUIRE(t.result.saves.size() == 3);
    CHECK(t.result.saves[2].last);
    for (const SaveFacts& s : t.result.saves) {
      CHECK(s.durable_ns >= s.staging_ns);
      CHECK(s.bytes > w.bytes());
    }
    CHECK(t.result.step_ns.size() == 7);
    CHECK(t.result.host_bytes >= (mode == SaveMode::kDisabled ? 1 : w.bytes()));
    CHECK(std::ranges::any_of(t.result.spans, [](const Span& s) { return s.lane == 2; }) == (mode != SaveMode::kDisabled));
    CHECK(t.io.open_handles() == 0);
  }
}

TEST_CASE("without a mode nothing is saved") {
  const Trained t(std::nullopt, kFast);
  CHECK(t.io.paths().empty());
  CHECK(t.result.saves.empty());
  CHECK(t.result.step_ns.size() == 7);
}

TEST_CASE("older checkpoints go, their metadata first") {
  TrainSpec spec = kFast;
  spec.keep_latest_k = 2;
  const Trained t(SaveMode::kAsync, spec);
  CHECK((t.steps() == std::set<std::string>{"run/step-6", "run/step-7"}));
  const auto at = [&](const std::string& entry) { return std::ranges::find(t.io.log, entry) - t.io.log.begin(); };
  CHECK(at("remove_file run/step-3/.metadata") < at("remove_file run/step-3/__0_0.distcp"));
  CHECK(static_cast<size_t>(at("remove_file run/step-3/__0_0.distcp")) < t.io.log.size());
}

TEST_CASE("the last checkpoint may be the model alone, in another dtype") {
  TrainSpec spec = kFast;
  spec.last_model_only = true;
  spec.export_dtype = DType::bfloat16;
  const Trained t(SaveMode::kAsyncPinned, spec);
  const Workload w = small();
  const Catalog last = read_checkpoint(const_cast<FakeIo&>(t.io), "run/step-7", {}).catalog;
  REQUIRE(last.tensors.size() == 2);
  CHECK(last.tensors[0].dtype == DType::bfloat16);
  const std::vector<std::byte> full = expected(w, 0, 7);
  std::vector<std::byte> cast(full.size() / 2);
  convert(cast.data(), DType::bfloat16, full.data(), DType::float32, cast.size() / 2);
  CHECK(holds(t.io, "run/step-7", cast));
  CHECK(holds(t.io, "run/step-7", expected(w, 1, 7)));
  CHECK(read_checkpoint(const_cast<FakeIo&>(t.io), "run/step-6", {}).catalog.tensors.size() == 4);
  CHECK(error_id([&] { Trained(SaveMode::kDisabled, spec, {.name = "x", .tensors = {{"optimizer.a", DType::float32, {4}}}}); }) ==
        "nothing_selected");
}

TEST_CASE("a failing disk ends the loop, whoever was writing; so does a signal") {
  for (const SaveMode mode : kSaveModes) {
    CAPTURE(name_of(mode));
    FakeIo io;
    io.put_folder("run");
    io.fail_at(Op::kWrite, 3, ProblemId::io_write);
    Device device(cpu_device_table(), 0);
    const Workload w = small();
    const StopFlag running{0}, stopped{SIGTERM};
    TrainSpec spec = kFast;
    spec.mode = mode;
    CHECK(error_id([&] { train(io, device, w, spec, running); }) == "io_write");
    CHECK(!io.exists("run/step-3"));
    CHECK(error_id([&] { train(io, device, w, spec, stopped); }) == "terminated");
  }
}

TEST_CASE("modes by name") {
  CHECK(save_mode_named("async_with_pinned_mem") == SaveMode::kAsyncPinned);
  CHECK(!save_mode_named("sync"));
}

TEST_CASE("what recorded loops come to") {
  constexpr uint64_t kMs = 1'000'000;
  const TrainResult bare{.step_ns = {200 * kMs, 200 * kMs, 200 * kMs, 200 * kMs}};
  TrainResult sync{
      .mode = SaveMode::kDisabled,
      .saves = {{.step = 2, .staging_ns = 900 * kMs, .durable_ns = 900 * kMs}, {.step = 4, .last = true, .staging_ns = 5000 * kMs}},
      .step_ns = {200 * kMs, 1100 * kMs, 200 * kMs, 5200 * kMs},
      .host_bytes = 4 << 20};
  TrainResult pinned{.mode = SaveMode::kAsyncPinned,
                     .saves = {{.step = 2, .waiting_ns = 5 * kMs, .staging_ns = 25 * kMs, .durable_ns = 800 * kMs}},
                     .step_ns = {200 * kMs, 230 * kMs, 200 * kMs, 200 * kMs},
                     .host_bytes = 1 << 30};
  const TrainSummary s = summarize(sync, bare);
  CHECK(s.stall_ns == 900 * kMs);
  CHECK(s.durable_ns == 900 * kMs);
  CHECK(s.step_ns == 500 * kMs);
  CHECK(s.overhead == Catch::Approx(1.5));
  CHECK(summarize(pinned, bare).stall_ns == 30 * kMs);
  CHECK(train_verdict({sync, pinned}, bare) == "Save in mode async_with_pinned_mem: each save stalls training for 30.0 ms and is durable "
                                               "after 800 ms, with 1.0 GiB of host memory; disabled 900 ms.");
  CHECK(train_verdict({}, bare) == "No mode was measured.");
}
