// What prune checks of the steps that stay, before others go; and steps whose checkpoints lie in folders of their own.
#include "app/prune.h"

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <string>
#include <vector>

#include "app/kept_steps.h"
#include "base/error_line.h"
#include "base/fake_io.h"
#include "base/io_wrapper.h"
#include "exec/synthetic.h"

using namespace dcp;
using namespace dcp::test;
using Lines = std::vector<std::string>;

namespace {

constexpr const char* kNoted = "/run/.dcpctl-whole";

struct Told final : Events {
  void info(std::string_view text) override { notes.emplace_back(text); }
  void warn(std::string_view text) override { warnings.emplace_back(text); }
  Lines notes, warnings;
};

// Checkpoints of two ranks below "/run".
struct PrunedRun {
  explicit PrunedRun(const Lines& names) {
    io.put_folder("/run");
    for (const std::string& name : names)
      write_synthetic(io, "/run/" + name, {.bytes = 3000, .world_size = 2, .tensors = 3, .seed = 7}, {.sync = false}, stop);
  }
  // In the data of a tensor: heads do not show it.
  void flip(const std::string& step) {
    const std::string path = "/run/" + step + "/__1_0.distcp";
    std::string text = io.text_of(path);
    for (size_t i = text.size() / 2; i < text.size() / 2 + 100; ++i) text[i] = static_cast<char>(text[i] ^ 1);
    io.put(path, text);
  }
  PruneResult prune(PruneRequest request) {
    request.survey = {.run = "/run", .pattern = {}, .max_memory = kGiB, .threads = 1};
    request.now_ns = int64_t{1} << 60;
    PruneResult result;
    dcp::prune(request, world, result, [&] { return ++asked, true; });
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
  int asked = 0;
};

}  // namespace

TEST_CASE("a newest step with damaged data does not count: the next older takes its place") {
  PrunedRun f({"step-1", "step-2", "step-3"});
  f.flip("step-3");
  const PruneResult result = f.prune({.survey = {}, .rules = {.keep_latest = 1}});
  CHECK(f.steps() == Lines{"step-2", "step-3"});
  CHECK(result.survey.steps[2].state == StepState::kDamaged);
  CHECK(f.asked == 2);  // the plan has changed
  REQUIRE(f.listener.warnings.size() == 2);
  CHECK(f.listener.warnings[1] == "'/run/step-3' is damaged: it stays, and does not count");
}

TEST_CASE("with fewer whole steps than are to be kept, nothing goes") {
  PrunedRun f({"step-1", "step-2"});
  f.flip("step-1");
  f.flip("step-2");
  CHECK(error_line([&] { f.prune({.survey = {}, .rules = {.keep_latest = 1}}); }) ==
        "/run: fewer steps are whole than should be kept, so nothing is deleted (got 0 whole steps, expected 1)");
  CHECK(f.steps() == Lines{"step-1", "step-2"});
  PrunedRun none({"step-1", "step-2"});  // as few as they are, all of them are whole
  CHECK(none.prune({.survey = {}, .rules = {.keep_latest = 3}}).decisions[0].fate == Fate::kKeep);
}

TEST_CASE("heads are read of all that count, data of the newest, or of all that stay, or nothing") {
  for (const CheckKept check : {CheckKept::kNewest, CheckKept::kAll, CheckKept::kNothing}) {
    PrunedRun f({"step-1", "step-2", "step-3", "step-4"});
    f.flip("step-3");
    const PruneResult result = f.prune({.survey = {}, .rules = {.keep_latest = 2}, .check = check});
    CHECK(result.looks[3].data == (check != CheckKept::kNothing));
    CHECK(result.looks[2].heads == (check != CheckKept::kNothing));
    CHECK(f.steps() == (check == CheckKept::kAll ? Lines{"step-2", "step-3", "step-4"} : Lines{"step-3", "step-4"}));
    CHECK(f.io.exists(kNoted) == (check != CheckKept::kNothing));
  }
  PrunedRun f({"step-1", "step-2", "step-3"});
  f.io.put("/run/step-2/__0_0.distcp", std::string(f.io.text_of("/run/step-2/__0_0.distcp").size(), 'x'));
  f.prune({.survey = {}, .rules = {.keep_latest = 2}});
  CHECK(f.steps() == Lines{"step-1", "step-2", "step-3"});
}

TEST_CASE("what was read whole is not read again while its files stay the same") {
  PrunedRun f({"step-1", "step-2", "step-3"});
  f.prune({.survey = {}, .rules = {.keep_latest = 2}});
  CHECK(f.steps() == Lines{"step-2", "step-3"});
  f.flip("step-2");
  const PruneResult again = f.prune({.survey = {}, .rules = {.keep_latest = 1}});
  CHECK(again.looks[1].data_before);
  CHECK_FALSE(again.looks[1].data);
  CHECK(f.steps() == Lines{"step-3"});
  write_synthetic(f.io, "/run/step-2", {.bytes = 3000, .world_size = 2, .tensors = 3, .seed = 7}, {.sync = false}, f.stop);
  f.flip("step-3");
  CHECK_FALSE(f.prune({.survey = {}, .rules = {.keep_latest = 2}}).has_work());
  f.prune({.survey = {}, .rules = {.keep_latest = 1}});
  CHECK(f.steps() == Lines{"step-2", "step-3"});
  PrunedRun between({"step-1", "step-2.tmp", "step-3", "step-4"});  // what lies between is not whose mark counts
  for (const char* step : {"step-1", "step-4"}) between.io.put("/run/" + std::string(step) + "/_SUCCESS", "");
  between.prune({.survey = {}, .rules = {.keep_latest = 1}});
  CHECK(between.steps() == Lines{"step-1", "step-2.tmp", "step-3", "step-4"});
}

TEST_CASE("a step that was found damaged is not complete while its files stay the same") {
  PrunedRun f({"step-1", "step-2", "step-3"});
  f.flip("step-3");
  f.prune({.survey = {}, .rules = {.keep_latest = 1}, .dry_run = true});
  const SurveyRequest request{.run = "/run", .pattern = {}, .max_memory = kGiB, .threads = 1};
  CHECK(survey_run(request, f.world).newest() == 2);  // a dry run reads no data, and notes nothing
  f.prune({.survey = {}, .rules = {.keep_latest = 1}});
  CHECK(f.steps() == Lines{"step-2", "step-3"});
  const RunSurvey found = survey_run(request, f.world);
  CHECK(found.newest() == 0);
  CHECK(found.steps[1].state == StepState::kDamaged);
  REQUIRE(found.steps[1].fault);
  CHECK(id_name(found.steps[1].fault->id) == "damage_noted");
  CHECK(found.steps[1].fault->got.find("CRC") != std::string::npos);
  CHECK(f.prune({.survey = {}, .rules = {.keep_latest = 1}}).looks[1].data == false);
  f.io.put("/run/step-3/.metadata.json", "");  // its files are no longer what they were
  CHECK(survey_run(request, f.world).newest() == 1);
}

TEST_CASE("whatever lies where it is noted, or if nothing can be, all is read and the rest goes on") {
  const std::string good = R"({"schema":"dcpctl.whole/1","steps":{"step-2":"1"}})";
  for (const std::string& text : {std::string("no JSON"), std::string(), std::string(2 << 20, '{'), good, good.substr(0, 40),
                                  std::string(R"({"schema":"dcpctl.whole/1","steps":{"../../x":"1","step-2":7}})")}) {
    PrunedRun f({"step-1", "step-2"});
    f.io.put(kNoted, text);
    CHECK(f.prune({.survey = {}, .rules = {.keep_latest = 1}}).looks[1].data);
    CHECK(f.steps() == Lines{"step-2"});
  }
  PrunedRun f({"step-1", "step-2"});
  f.io.put_folder(kNoted);
  f.prune({.survey = {}, .rules = {.keep_latest = 1}});
  CHECK(f.steps() == Lines{".dcpctl-whole", "step-2"});
  PrunedRun closed({"step-1", "step-2"});
  closed.io.fail_at(test::Op::kCreate, closed.io.calls(test::Op::kCreate), ProblemId::io_create);
  closed.prune({.survey = {}, .rules = {.keep_latest = 1}});
  CHECK(closed.steps() == Lines{"step-2"});
  CHECK_FALSE(closed.io.exists(kNoted));
}

TEST_CASE("a signal while data is read deletes nothing") {
  PrunedRun f({"step-1", "step-2"});
  PruneResult result;
  const PruneRequest request{
      .survey = {.run = "/run", .pattern = {}, .max_memory = kGiB, .threads = 1}, .rules = {.keep_latest = 1}, .now_ns = int64_t{1} << 60};
  CHECK(error_id([&] { dcp::prune(request, f.world, result, [&] { return f.stop = 2, true; }); }) == "interrupted");
  CHECK(f.steps() == Lines{"step-1", "step-2"});
  CHECK_FALSE(f.io.exists(kNoted));
}

TEST_CASE("a signal at any read leaves whole steps, and all of them until the newest is read whole") {
  struct Stopping : IoWrapper {
    Stopping(Io& inner, StopFlag& flag, int reads) : IoWrapper(inner), stop(flag), left(reads) {}
    size_t read(Handle file, uint64_t offset, MutableBytes buffer) override {
      if (--left == 0) stop = 15;
      return IoWrapper::read(file, offset, buffer);
    }
    StopFlag& stop;
    int left;
  };
  int interrupted = 0;
  for (bool done = false; !done;) {
    PrunedRun f({"step-1", "step-2"});
    Stopping io(f.io, f.stop, interrupted + 1);
    World world{io, f.stop, f.listener};
    PruneResult result;
    const PruneRequest request{.survey = {.run = "/run", .pattern = {}, .max_memory = kGiB, .threads = 1},
                               .rules = {.keep_latest = 1},
                               .now_ns = int64_t{1} << 60};
    done = error_id([&] { dcp::prune(request, world, result, [] { return true; }); }) != "terminated";
    if (done) break;
    ++interrupted;
    if (!f.io.exists(kNoted)) CHECK(f.steps() == Lines{"step-1", "step-2"});
    f.stop = 0;
    const PruneResult after = f.prune({.survey = {}, .rules = {.keep_latest = 2}, .dry_run = true});
    CHECK(std::ranges::all_of(after.survey.steps, [](const StepFacts& s) { return s.state == StepState::kComplete; }));
    CHECK(f.io.open_handles() == 0);
  }
  CHECK(interrupted > 5);
}

TEST_CASE("nothing is checked if nothing would go, and a dry run reads no data") {
  PrunedRun f({"step-1", "step-2"});
  CHECK_FALSE(f.prune({.survey = {}, .rules = {.keep_latest = 2}}).looks[1].heads);
  const PruneResult dry = f.prune({.survey = {}, .rules = {.keep_latest = 1}, .dry_run = true});
  CHECK(dry.to_read == std::vector<size_t>{1});
  CHECK(dry.bytes_to_read() > 2000);
  CHECK_FALSE(dry.looks[1].data);
  CHECK_FALSE(f.io.exists(kNoted));
}

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
        f.prune({.survey = {}, .rules = {.keep_latest = 1}, .check = CheckKept::kNothing});
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

TEST_CASE("what leads to a step while others are deleted keeps it") {
  PrunedRun f({"step-1", "step-2", "step-3"});
  struct Pointing final : IoWrapper {
    Pointing(FakeIo& io) : IoWrapper(io), io_(io) {}
    void remove_file(Handle folder, const std::string& name) override {
      IoWrapper::remove_file(folder, name);
      if (name == ".metadata") io_.put("/run/best", "step-2\n");
    }
    FakeIo& io_;
  } io(f.io);
  World world{io, f.stop, f.listener};
  PruneResult result;
  prune(
      {.survey = {.run = "/run", .pattern = {}, .max_memory = kGiB, .threads = 1}, .rules = {.keep_latest = 1}, .now_ns = int64_t{1} << 60},
      world, result, [] { return true; });
  CHECK(f.steps() == Lines{"step-2", "step-3"});
  CHECK(result.done[1] == Done::kChanged);
  CHECK(f.listener.notes.back() == "'/run/step-2' is kept: 'best' leads to it now");
}
