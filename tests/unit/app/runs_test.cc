// Runs: what is found in them, which steps go, and in which order.
#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "app/prune.h"
#include "app/run_survey.h"
#include "base/error_line.h"
#include "base/fake_io.h"
#include "exec/synthetic.h"
#include "files/remove_checkpoint.h"

using namespace dcp;
using namespace dcp::test;
using Lines = std::vector<std::string>;

namespace {

constexpr uint64_t kSecond = 1'000'000'000;

struct Heard final : Events {
  void info(std::string_view text) override { notes.emplace_back(text); }
  Lines notes;
};

// Checkpoints of two ranks below "/run".
struct MadeRun {
  void step(const std::string& name) {
    write_synthetic(io, "/run/" + name, {.bytes = 3000, .world_size = 2, .tensors = 3, .seed = 7}, {.sync = false}, stop);
  }
  SurveyRequest survey() const { return {.run = "/run", .pattern = {}, .max_memory = kGiB, .threads = 1}; }
  MadeRun() { io.put_folder("/run"); }
  FakeIo io;
  StopFlag stop{0};
  Heard listener;
  World world{io, stop, listener};
};

std::string survey_text(const RunSurvey& run) {
  std::string text;
  for (const StepFacts& s : run.steps) {
    text += std::to_string(s.number) + (s.state == StepState::kComplete     ? " complete"
                                        : s.state == StepState::kLocked     ? " locked"
                                        : s.state == StepState::kCut        ? " cut"
                                        : s.state == StepState::kBroken     ? " broken"
                                        : s.state == StepState::kUnfinished ? " unfinished"
                                        : s.state == StepState::kUnmarked   ? " unmarked"
                                                                            : " unclear");
    if (s.fault) text += " " + std::string(id_name(s.fault->id));
    text += "\n";
  }
  return text;
}

// --- the rules of retention, said once more, one step and one rule at a time

uint64_t age_ns(int64_t since, int64_t now) { return since > now ? 0 : static_cast<uint64_t>(now - since); }

bool is_newest_of_its_content(const RunSurvey& run, const StepFacts& s) {
  for (const StepFacts& other : run.steps)
    if (other.state == StepState::kComplete && other.content == s.content && other.number > s.number) return false;
  return true;
}

uint64_t newer_complete_numbers(const RunSurvey& run, const StepFacts& s) {
  std::set<uint64_t> numbers;
  for (const StepFacts& other : run.steps)
    if (other.state == StepState::kComplete && other.number > s.number) numbers.insert(other.number);
  return numbers.size();
}

Fate fate_by_model(const RunSurvey& run, size_t index, const RetentionRules& r, int64_t now) {
  const StepFacts& s = run.steps[index];
  const bool complete = s.state == StepState::kComplete;
  if (s.state == StepState::kLocked || s.state == StepState::kUnclear) return Fate::kKeep;
  if (s.state == StepState::kUnmarked || s.state == StepState::kDamaged || s.state == StepState::kBroken) return Fate::kKeep;
  if (complete && is_newest_of_its_content(run, s)) return Fate::kKeep;
  if (complete && (!r.keep_latest || newer_complete_numbers(run, s) < *r.keep_latest)) return Fate::kKeep;
  for (size_t u = 0; complete && u < run.steps.size(); ++u) {  // whose mark shows that this one lacks it
    if (run.steps[u].state != StepState::kUnmarked) continue;
    size_t m = u;
    while (m > 0 && run.steps[m].state != StepState::kComplete) --m;
    if (run.steps[m].state == StepState::kComplete && run.steps[m].number == s.number) return Fate::kKeep;
  }
  if (!complete && (!r.partial || age_ns(s.touched_ns, now) < r.grace_ns)) return Fate::kKeep;
  const auto is_whole_and_full = [](const StepFacts& o) { return o.state == StepState::kComplete && o.content == StepContent::kFull; };
  if (!complete && s.content == StepContent::kFull && std::ranges::none_of(run.steps, is_whole_and_full)) return Fate::kKeep;
  if (r.keep_every && s.state != StepState::kUnfinished && s.number % *r.keep_every == 0) return Fate::kKeep;
  for (size_t d = 0; complete && r.keep_every && d < run.steps.size(); ++d) {  // for which this one stays
    if (word_of(run.steps[d]) != "damaged" || run.steps[d].number % *r.keep_every != 0) continue;
    size_t older = d;
    while (older > 0 && run.steps[older].state != StepState::kComplete) --older;
    if (run.steps[older].state == StepState::kComplete && run.steps[older].number == s.number) return Fate::kKeep;
  }
  for (const RunPointer& p : run.pointers)
    if (p.step == index) return Fate::kKeep;
  if (r.older_than_ns && age_ns(s.modified_ns, now) < *r.older_than_ns) return Fate::kKeep;
  if (!s.not_alone.empty()) return Fate::kKeep;
  if (!complete || !r.drop_optimizer) return Fate::kDelete;
  return s.content == StepContent::kFull && s.kind == CheckpointKind::kDcp ? Fate::kDropOptimizer : Fate::kKeep;
}

RunSurvey made_up_run(std::mt19937_64& random, int64_t now) {
  RunSurvey run{.run = "run", .steps = {}, .pointers = {}};
  const size_t steps = random() % 12;
  uint64_t number = random() % 3;
  for (size_t s = 0; s < steps; ++s) {
    StepFacts facts{.number = number, .name = "step-" + std::to_string(number)};
    facts.state = random() % 3 > 0 ? StepState::kComplete : static_cast<StepState>(random() % 8);
    facts.content = static_cast<StepContent>(1 + random() % 4);
    facts.kind = random() % 8 == 0 ? CheckpointKind::kHf : CheckpointKind::kDcp;
    facts.modified_ns = now - static_cast<int64_t>(random() % 2000 * kSecond) + static_cast<int64_t>(60 * kSecond);
    facts.touched_ns = facts.modified_ns + static_cast<int64_t>(random() % 500 * kSecond);
    if (random() % 8 == 0) facts.not_alone = "it is a link";
    run.steps.push_back(facts);
    number += random() % 4;  // twice the same now and then
  }
  if (steps > 0 && random() % 2 == 0)
    run.pointers.push_back({.name = "latest", .is_link = true, .says = {}, .step = random() % steps, .wrong = {}});
  return run;
}

}  // namespace

TEST_CASE("what goes is what the rules say, for every combination of options on made-up runs") {
  std::mt19937_64 random(1);
  constexpr int64_t kNow = int64_t{1'700'000'000} * static_cast<int64_t>(kSecond);
  uint64_t fates[3] = {};
  for (int round = 0; round < 300; ++round) {
    const RunSurvey run = made_up_run(random, kNow);
    for (const std::optional<uint64_t> latest :
         {std::optional<uint64_t>(), std::optional<uint64_t>(0), std::optional<uint64_t>(1), std::optional<uint64_t>(3)})
      for (const std::optional<uint64_t> every : {std::optional<uint64_t>(), std::optional<uint64_t>(2), std::optional<uint64_t>(5)})
        for (const std::optional<uint64_t> older : {std::optional<uint64_t>(), std::optional<uint64_t>(1000 * kSecond)})
          for (const bool partial : {false, true})
            for (const auto& [drop, grace] :
                 {std::pair(false, 600 * kSecond), {true, 600 * kSecond}, {false, 0 * kSecond}, {true, 1500 * kSecond}}) {
              const RetentionRules rules{.keep_latest = latest,
                                         .keep_every = every,
                                         .partial = partial,
                                         .older_than_ns = older,
                                         .grace_ns = grace,
                                         .drop_optimizer = drop};
              const std::vector<Decision> decisions = decide(run, rules, kNow);
              REQUIRE(decisions.size() == run.steps.size());
              for (size_t s = 0; s < run.steps.size(); ++s) {
                INFO("round " << round << ", step " << run.steps[s].number << ": " << decisions[s].why);
                REQUIRE(decisions[s].fate == fate_by_model(run, s, rules, kNow));
                REQUIRE_FALSE(decisions[s].why.empty());
                ++fates[static_cast<size_t>(decisions[s].fate)];
              }
            }
  }
  for (const uint64_t count : fates) CHECK(count > 1000);  // each is tried
}

TEST_CASE("a step is complete when its metadata parses and every file is there and long enough") {
  MadeRun f;
  for (const char* name : {"step-1", "step-2", "step-3", "step-4", "step-5", "step-6"}) f.step(name);
  f.io.take("/run/step-2/.metadata");
  f.io.take("/run/step-3/__1_0.distcp");
  f.io.put("/run/step-4/__1_0.distcp", "short");
  f.io.put("/run/step-5/.metadata", f.io.text_of("/run/step-5/.metadata").substr(0, 100));
  f.io.put("/run/.step-6.dcpctl-lock", "");
  f.io.lock_elsewhere("/run/.step-6.dcpctl-lock");
  f.io.put("/run/.step-7.dcpctl-partial/.metadata", "is being made");
  CHECK(survey_text(survey_run(f.survey(), f.world)) ==
        "1 complete\n2 cut not_checkpoint\n3 broken file_missing\n4 broken item_past_end\n5 broken pickle_truncated\n6 locked\n");
}

TEST_CASE("a tracker file is compared with what is there") {
  MadeRun f;
  for (const char* name : {"iter_0000010", "iter_0000020", "iter_0000030"}) f.step(name);
  f.io.take("/run/iter_0000030/.metadata");
  const auto says = [&](const std::string& text) {
    f.io.put("/run/latest_checkpointed_iteration.txt", text);
    const RunSurvey run = survey_run(f.survey(), f.world);
    return run.pointers.empty() ? "none" : run.pointers[0].wrong;
  };
  CHECK(says("20\n") == "");
  CHECK(says("10") == "points to iter_0000010, though iter_0000020 is newer");
  CHECK(says("30") == "points to iter_0000030, which is unfinished");
  CHECK(says("40") == "says '40', which is not there");
  CHECK(says("release") == "none");
  CHECK(says("iter_0000020") == "");
}

TEST_CASE("the newest is the highest number, and older ones are not opened for it") {
  MadeRun f;
  for (const char* name : {"step-9", "step-10", "step-30"}) f.step(name);
  f.io.take("/run/step-30/__0_0.distcp");
  f.io.log.clear();
  ListResult found;
  list_steps({.survey = f.survey(), .newest_only = true}, f.world, found);
  CHECK(found.newest->path == "/run/step-10");
  CHECK(std::ranges::find(f.io.log, "open /run/step-9/.metadata") == f.io.log.end());
  list_steps({.survey = f.survey(), .newest_only = true, .after = 10}, f.world, found);
  CHECK_FALSE(found.newest);
  list_steps({.survey = f.survey(), .newest_only = true, .content = StepContent::kFull}, f.world, found);
  CHECK_FALSE(found.newest);
}

TEST_CASE("waiting ends when a step is complete, or when its time is over") {
  MadeRun f;
  f.step("step-1");
  f.step("step-2");
  const std::string metadata = f.io.text_of("/run/step-2/.metadata");
  f.io.take("/run/step-2/.metadata");
  ListResult found;
  list_steps({.survey = f.survey(), .newest_only = true, .after = 1, .wait_ns = 3'000'000}, f.world, found);
  CHECK_FALSE(found.newest);
  uint64_t looks = 0;
  f.io.before = [&](test::Op op, uint64_t) {
    if (op == test::Op::kList && ++looks == 20) f.io.put("/run/step-2/.metadata", metadata);
  };
  list_steps({.survey = f.survey(), .newest_only = true, .after = 1, .wait_ns = 60 * kSecond}, f.world, found);
  REQUIRE(found.newest);
  CHECK(found.newest->number == 2);
}

TEST_CASE("what makes a folder a checkpoint goes first and is gone for good before any data goes") {
  MadeRun f;
  for (const char* name : {"step-1", "step-2"}) f.step(name);
  f.io.log.clear();
  PruneResult result;
  prune({.survey = f.survey(), .rules = {.keep_latest = 1}, .check = CheckKept::kNothing, .now_ns = int64_t{1} << 60}, f.world, result,
        [] { return true; });
  Lines changes;
  for (const std::string& line : f.io.log)
    if (line.starts_with("remove") || line.starts_with("sync")) changes.push_back(line);
  CHECK(changes == Lines{"remove_file /run/step-1/.metadata", "sync_folder /run/step-1", "remove_file /run/step-1/__1_0.distcp",
                         "sync_folder /run/step-1", "remove_file /run/step-1/__0_0.distcp", "remove_folder /run/step-1",
                         "remove_file /run/.step-1.dcpctl-lock", "sync_folder /run"});
  CHECK(result.freed == result.to_free());
  CHECK(result.freed > 3000);
  CHECK_FALSE(f.io.exists("/run/step-1"));
  CHECK(f.io.exists("/run/step-2/.metadata"));
}

TEST_CASE("whatever fails while a step goes, it is complete or known not to be") {
  for (const test::Op op :
       {test::Op::kRemoveFile, test::Op::kRemoveFolder, test::Op::kSyncFolder, test::Op::kList, test::Op::kCreate, test::Op::kLock}) {
    for (uint64_t k = 0; k < 12; ++k) {
      MadeRun f;
      for (const char* name : {"step-1", "step-2", "step-3"}) f.step(name);
      PruneResult result;
      uint64_t begin = 0;
      const auto confirmed = [&] { return begin = f.io.calls(op), f.io.fail_at(op, begin + k, ProblemId::io_remove), true; };
      try {
        prune({.survey = f.survey(), .rules = {.keep_latest = 1}, .now_ns = int64_t{1} << 60}, f.world, result, confirmed);
      } catch (const Error&) {
      }
      if (f.io.calls(op) <= begin + k) break;  // it does not make so many
      for (const StepFacts& s : survey_run(f.survey(), f.world).steps) {
        const bool has_metadata = f.io.exists(s.path + "/.metadata");
        INFO(s.path << " after fault " << k);
        CHECK((s.state == StepState::kComplete) == has_metadata);
      }
      CHECK(f.io.exists("/run/step-3/.metadata"));
      CHECK(f.io.open_handles() == 0);
    }
  }
}

TEST_CASE("a file system without room for a lock can be freed") {
  for (const bool is_held : {false, true}) {
    MadeRun f;
    for (const char* name : {"step-1", "step-2"}) f.step(name);
    const Handle held = is_held ? *f.io.open_write(OpenFile(f.io, f.io.open_folder("/run/step-1")).get(), ".metadata") : 0;
    if (is_held) REQUIRE(f.io.try_lock(held));
    PruneResult result;
    const auto confirmed = [&] { return f.io.fail_at(test::Op::kCreate, f.io.calls(test::Op::kCreate), ProblemId::io_no_space), true; };
    prune({.survey = f.survey(), .rules = {.keep_latest = 1}, .check = CheckKept::kNothing, .now_ns = int64_t{1} << 60}, f.world, result,
          confirmed);
    CHECK(f.io.exists("/run/step-1/.metadata") == is_held);  // another run that found no room is at it
    if (is_held) f.io.close(held);
  }
}

TEST_CASE("a step that changes between the plan and the deed stays") {
  MadeRun f;
  for (const char* name : {"step-1", "step-2"}) f.step(name);
  PruneResult result;
  const auto confirmed = [&] { return f.io.put("/run/step-1/__2_0.distcp", "more"), true; };
  prune({.survey = f.survey(), .rules = {.keep_latest = 1}, .now_ns = int64_t{1} << 60}, f.world, result, confirmed);
  CHECK(result.done == std::vector<Done>{Done::kChanged, Done::kNothing});
  CHECK(f.listener.notes == Lines{"'/run/step-1' has changed meanwhile, and is kept"});
  CHECK(f.io.exists("/run/step-1/.metadata"));
}

TEST_CASE("a folder that holds anything but a checkpoint's files stays") {
  MadeRun f;
  for (const char* name : {"step-1", "step-2", "step-3"}) f.step(name);
  f.io.put("/run/step-1/notes.md", "mine");
  f.io.put("/run/step-2/logs/out.log", "mine");
  PruneResult result;
  prune({.survey = f.survey(), .rules = {.keep_latest = 1}, .now_ns = int64_t{1} << 60}, f.world, result, [] { return true; });
  CHECK(result.decisions[0].why == "it holds 'notes.md', which is not a file of a checkpoint");
  CHECK(result.decisions[1].why == "it holds 'logs', which is not a file of a checkpoint");
  CHECK_FALSE(result.has_work());
}

TEST_CASE("the order in which files go depends on what makes them a checkpoint") {
  const auto order = [](std::vector<std::string> names) {
    const RemovalOrder o = removal_order(std::move(names));
    std::string text = std::to_string(o.metadata) + ":";
    for (const std::string& n : o.names) text += " " + n;
    return text;
  };
  CHECK(order({"__0_0.distcp", ".metadata", "config.json"}) == "1: .metadata config.json __0_0.distcp");
  CHECK(order({"__0_0.distcp", "__1_0.distcp", ".metadata"}) == "1: .metadata __1_0.distcp __0_0.distcp");
  CHECK(order({"__1.metadata", "__0.metadata", "__0_0.distcp"}) == "2: __0.metadata __1.metadata __0_0.distcp");
  CHECK(order({"model-1.safetensors", "model.safetensors.index.json", "model-2.safetensors"}) ==
        "2: model-1.safetensors model-2.safetensors model.safetensors.index.json");
  CHECK(order({"model.safetensors", "config.json"}) == "1: model.safetensors config.json");
  CHECK(order({"extra_state_world_size_1_rank_0.pt", "model_world_size_1_rank_0.pt", "optim_world_size_1_rank_0.pt"}) ==
        "1: model_world_size_1_rank_0.pt extra_state_world_size_1_rank_0.pt optim_world_size_1_rank_0.pt");
  CHECK(order({"app_0.pt", "metadata.pkl"}) == "1: metadata.pkl app_0.pt");
  CHECK(order({"a.safetensors", "b.safetensors"}) == "0:");  // either alone would be a checkpoint
}
