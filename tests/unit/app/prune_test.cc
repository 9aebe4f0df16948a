// Unfinished saves, marks of complete ones, and steps whose checkpoints lie in folders of their own.
#include "app/prune.h"

#include <catch2/catch_test_macros.hpp>
#include <string>
#include <vector>

#include "base/fake_io.h"
#include "exec/synthetic.h"

using namespace dcp;
using namespace dcp::test;
using Lines = std::vector<std::string>;

namespace {

struct Told final : Events {
  void info(std::string_view text) override { notes.emplace_back(text); }
  Lines notes;
};

// Checkpoints of two ranks below "/run".
struct PrunedRun {
  explicit PrunedRun(const Lines& names) {
    io.put_folder("/run");
    for (const std::string& name : names)
      write_synthetic(io, "/run/" + name, {.bytes = 3000, .world_size = 2, .tensors = 3, .seed = 7}, {.sync = false}, stop);
  }
  PruneResult prune(PruneRequest request) {
    request.survey = {.run = "/run", .pattern = {}, .max_memory = kGiB, .threads = 1};
    request.now_ns = int64_t{1} << 60;
    PruneResult result;
    dcp::prune(request, world, result, [&] { return true; });
    return result;
  }
  Lines steps() {
    Lines names;
    for (const DirEntry& e : io.list("/run"))
      if (e.kind == FileKind::kDirectory) names.push_back(e.name);
    return names;
  }
  FakeIo io;
  StopFlag stop{0};
  Told listener;
  World world{io, stop, listener};
};

}  // namespace

TEST_CASE("an unfinished save goes with what interrupted ones left, and by no other rule") {
  for (const bool partial : {false, true}) {
    PrunedRun f({"step-4", "tmp_step-6", "step-8.incomplete"});
    f.io.put_folder("/run/tmp-10");
    f.prune({.survey = {}, .rules = {.keep_latest = 1, .keep_every = 2, .partial = partial}});
    CHECK(f.steps() == (partial ? Lines{"step-4"} : Lines{"step-4", "step-8.incomplete", "tmp-10", "tmp_step-6"}));
  }
  PrunedRun f({"step-4", "tmp_step-6"});
  f.io.put("/run/tmp_step-6/mine.md", "mine");
  f.prune({.survey = {}, .rules = {.keep_latest = 1, .partial = true}});
  CHECK(f.steps() == Lines{"step-4", "tmp_step-6"});
}

TEST_CASE("a step that lacks its mark stays") {
  PrunedRun f({"step-1", "step-2", "step-3"});
  f.io.put("/run/step-2/_SUCCESS", "");
  f.prune({.survey = {}, .rules = {.keep_latest = 1, .partial = true}});
  CHECK(f.steps() == Lines{"step-2", "step-3"});
}

TEST_CASE("a step whose checkpoints lie in folders goes with all of them, recognizably") {
  for (const test::Op op : {test::Op::kRemoveFile, test::Op::kRemoveFolder, test::Op::kSyncFolder})
    for (uint64_t k = 0; k < 20; ++k) {
      PrunedRun f({});
      for (const char* step : {"step-1", "step-2"}) {
        for (const char* part : {"model/ckpt", "model/optimizer"}) {
          f.io.put_folder("/run/" + std::string(step) + "/model");
          write_synthetic(f.io, "/run/" + std::string(step) + "/" + part, {.bytes = 3000, .world_size = 2, .tensors = 3, .seed = 7},
                          {.sync = false}, f.stop);
        }
        for (const char* file : {"extra_state/rank_0.pt", "checkpoint_manifest.json"})
          f.io.put("/run/" + std::string(step) + "/" + file, "x");
      }
      f.io.fail_at(op, f.io.calls(op) + k, ProblemId::io_remove);
      try {
        f.prune({.survey = {}, .rules = {.keep_latest = 1}});
        CHECK(f.steps() == Lines{"step-2"});
        if (k > 0) break;
      } catch (const Error&) {
      }
      const RunSurvey run = survey_run({.run = "/run", .pattern = {}, .max_memory = kGiB, .threads = 1}, f.world);
      REQUIRE_FALSE(run.steps.empty());
      CHECK(run.steps.back().state == StepState::kComplete);
      const bool is_whole = f.io.exists("/run/step-1/model/ckpt/.metadata");
      INFO("after fault " << k);
      if (run.steps.size() == 2) CHECK((run.steps[0].state == StepState::kComplete) == is_whole);
      CHECK(f.io.open_handles() == 0);
    }
}
