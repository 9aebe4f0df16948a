// Which folders of a run are steps, and which of them `latest` is.
#include "inputs/run.h"

#include <catch2/catch_test_macros.hpp>
#include <utility>
#include <vector>

#include "base/error_line.h"
#include "catalog/made_blobs.h"

using namespace dcp;
using namespace dcp::test;
using Lines = std::vector<std::string>;

namespace {

Lines steps(Store& io, const std::string& pattern = "") {
  Lines lines;
  for (const Step& s : find_run(io, "run", pattern).steps)
    lines.push_back(std::to_string(s.number) + " " + s.path.substr(4) + (s.unfinished ? ", unfinished" : s.lacks_mark ? ", unmarked" : ""));
  return lines;
}
MadeCheckpoint small() {
  MadeCheckpoint made;
  made.tensors = {{.key = "w", .dtype = DType::float32, .dims = {2}, .chunks = {whole_chunk({2})}}};
  return made;
}
std::string found(FakeIo& io, const std::string& wanted, Lines* passed_over = nullptr) {
  std::vector<Step> broken;
  const std::string path = find_step(io, {"run/", wanted, ""}, {}, broken);
  for (const Step& s : broken) passed_over->push_back(s.path + ": " + std::string(id_name(s.broken->id)));
  return path;
}

}  // namespace

TEST_CASE("the last integer of a folder's name is its step") {
  for (const char* step :
       {"20 step-20", "5 checkpoint_5", "7 checkpoint_step7", "100 iter_0000100", "3 epoch=0-step=3.ckpt", "1 2024-run-1"}) {
    FakeIo io;
    io.put("run" + std::string(step).replace(0, std::string(step).find(' '), "").replace(0, 1, "/") + "/.metadata", "x");
    CHECK(steps(io) == Lines{step});
  }
  FakeIo io;
  io.put("run/step-20/.metadata", "x");
  io.put("run/best/.metadata", "x");                       // no number
  io.put("run/step-9/notes.txt", "x");                     // no checkpoint
  io.put("run/step-11", "x");                              // a file
  io.put("run/step-99999999999999999999/.metadata", "x");  // no 64-bit number
  CHECK(steps(io) == Lines{"20 step-20"});
}

TEST_CASE("the steps of a run differ in the numbers of their names alone") {
  struct Run {
    FakeIo io = {};
    explicit Run(std::initializer_list<const char*> names) {
      for (const char* name : names) io.put(std::string("run/") + name + "/.metadata", "x");
    }
    size_t count() { return steps(io).size(); }
    bool is_clear() { return !find_run(io, "run", "").unclear_order; }
    std::string error() {
      return error_id([&] { check_order(find_run(io, "run", "")); });
    }
  };
  Run beside{"step-20", "step-100", "step-100.bak", "on2", "llama-7b"};
  CHECK(steps(beside.io) == Lines{"20 step-20", "100 step-100"});
  CHECK(find_run(beside.io, "run", "").beside == Lines{"on2", "llama-7b", "step-100.bak"});
  CHECK(find_run(beside.io, "run", "^step-(\\d+)").beside.empty());
  CHECK(found(beside.io, "100") == "run/step-100");
  CHECK(Run{"epoch=0-step=9.ckpt", "epoch=1-step=10.ckpt"}.count() == 2);
  CHECK(Run{"3", "12"}.count() == 2);
  CHECK(Run{"final-v1", "final-v2"}.count() == 2);
  CHECK(Run{"epoch_1_step_250", "epoch_0_step_500"}.error() == "step_ambiguous");
  CHECK(Run{"epoch_1_step_500", "epoch_0_step_500"}.error() == "step_ambiguous");
  CHECK(Run{"epoch_0_step_500", "epoch_1_step_1000"}.count() == 2);
  CHECK(Run{"run-1-20", "run-2-30"}.error() == "step_ambiguous");
  CHECK(Run{"run-1-20", "run-01-30"}.count() == 2);
  CHECK(Run{"step_100_run1", "step_100_run2"}.error() == "step_ambiguous");
  CHECK(Run{"llama-7b-step1", "llama-13b-step2"}.error() == "step_ambiguous");
  CHECK(Run{"lr0.1_step_5", "lr0.01_step_5"}.error() == "step_ambiguous");
  CHECK(Run{"ep2.1", "ep1.9"}.error() == "step_ambiguous");
  CHECK(Run{"e0-step9", "e1-step10"}.count() == 2);
  CHECK(Run{"the-step9", "the-step10"}.count() == 2);
  CHECK(Run{"Epoch=0-Step=100", "Epoch=1-Step=200"}.is_clear());
  CHECK(Run{"step=100-epoch=0", "step=200-epoch=1"}.is_clear());
  CHECK(Run{"epoch-0-steps-100", "epoch-1-steps-200"}.is_clear());
  CHECK(Run{"epoch0_iters100", "epoch1_iters200"}.is_clear());
  CHECK(Run{"step=100-loss=1.5e-05", "step=200-loss=1.25e-06"}.is_clear());
  CHECK(Run{"lr0.1-step100", "lr0.01-step200"}.error() == "step_ambiguous");
  CHECK(Run{"llama-3.1-step1", "llama-3.2-step2"}.error() == "step_ambiguous");
  CHECK(Run{"20250201120000123456-step-1", "20250131120000123456-step-2"}.error() == "step_ambiguous");
  CHECK(Run{"ckpt-0.5", "ckpt-0.25"}.error() == "step_ambiguous");
  CHECK(Run{"step-5", "step-05"}.error() == "step_ambiguous");
  Run anew{"epoch_1_step_250", "epoch_0_step_500"};
  CHECK(found(anew.io, "250") == "run/epoch_1_step_250");
  CHECK(Run{"loss=0.9-step=1", "loss=0.12-step=2", "loss=0.4-step=3"}.count() == 3);
  CHECK(Run{"final-v1", "qwen-2"}.error() == "step_ambiguous");
  CHECK(Run{"step-1", "epoch_1"}.error() == "step_ambiguous");
  CHECK(Run{"step-10", "step-20", "step-40 (2)"}.error() == "step_ambiguous");  // a copy of 40
  Run letters{"10", "20", "\xd0\xba-5"};                                        // of another alphabet
  CHECK(steps(letters.io) == Lines{"10 10", "20 20"});
  CHECK(Run{"on2", "tt/checkpoint/step-1", "fsdp/global_step_1"}.error() == "step_ambiguous");  // an export beside runs
}

TEST_CASE("what an unfinished save or a rank left is a step too") {
  FakeIo io;
  io.put("run/s1/.metadata.tmp", "x");
  io.put("run/s2/__0_0.distcp", "x");
  io.put("run/s3/__0.metadata", "x");
  CHECK(steps(io) == Lines{"1 s1", "2 s2", "3 s3"});
}

TEST_CASE("an empty folder with the name of a step is of a save that did not finish") {
  FakeIo io;
  small().put(io, "run/step-4");
  for (const char* name : {"step-9", "12", "logs-13"})
    io.put(std::string("run/") + name + "/file", ""), io.take(std::string("run/") + name + "/file");
  CHECK(steps(io) == Lines{"4 step-4", "9 step-9, unfinished", "12 12, unfinished"});
  Lines passed_over;
  CHECK(found(io, "latest", &passed_over) == "run/step-4");
  CHECK(passed_over == Lines{"run/step-9: unfinished_save", "run/12: unfinished_save"});
}

TEST_CASE("a pattern's group is the number") {
  FakeIo io;
  for (const char* name : {"e1-s30", "e2-s20", "other-5"}) io.put(std::string("run/") + name + "/.metadata", "x");
  CHECK(steps(io, "e(\\d+)-s") == Lines{"1 e1-s30", "2 e2-s20"});
  CHECK(steps(io, "^e.-s([a-z]+)$").empty());  // matches nothing
  const std::string expected = ", expected a regular expression with one group, for the step's number";
  CHECK(error_line([&] { find_run(io, "run", "e\\d+"); }) == "got pattern 'e\\d+'" + expected);
  CHECK(error_line([&] { find_run(io, "run", "(e"); }) == "got pattern '(e'" + expected);
}

TEST_CASE("latest is the newest complete step, and what is newer is named") {
  FakeIo io;
  small().put(io, "run/step-1");
  small().put(io, "run/step-2");
  CHECK(found(io, "latest") == "run/step-2");
  io.put("run/step-3/__0_0.distcp", "x");  // no metadata
  small().put(io, "run/step-4");
  io.put("run/step-4/__0_0.distcp", "short");
  Lines passed_over;
  CHECK(found(io, "latest", &passed_over) == "run/step-2");
  CHECK(passed_over == Lines{"run/step-4: item_past_end", "run/step-3: not_checkpoint"});
}

TEST_CASE("a folder that is named like an unfinished save is listed and never chosen") {
  FakeIo io;
  small().put(io, "run/step-4");
  small().put(io, "run/step-5");
  for (const char* name :
       {"tmp_step-9", "tmp-9", ".tmp9", "step-9.tmp", "step-9_tmp", "step-9-tmp", "step-9.partial", "step-9.incomplete"}) {
    small().put(io, std::string("run/") + name);
    CHECK(steps(io) == Lines{"4 step-4", "5 step-5", "9 " + std::string(name) + ", unfinished"});
    Lines passed_over;
    CHECK(found(io, "latest", &passed_over) == "run/step-5");
    CHECK(passed_over == Lines{"run/" + std::string(name) + ": unfinished_save"});
    CHECK(error_id([&] { found(io, "9"); }) == "step_missing");
    io.take(std::string("run/") + name);
  }
  small().put(io, "run/tmp_step-5");  // beside the step itself
  small().put(io, "run/.tmp_step-5");
  CHECK(found(io, "5") == "run/step-5");
  CHECK(found(io, "latest") == "run/step-5");
  for (const char* name : {"step-5", "tmpstep-5", "partial-5", "mytmp_5"}) CHECK_FALSE(unfinished_by_name(std::string("run/") + name));
}

TEST_CASE("a step's checkpoints may lie in folders of their own, and steps in one folder below the run") {
  FakeIo io;
  for (const char* part : {"model/ckpt", "model/optimizer"}) {
    small().put(io, std::string("run/checkpoints/global_step_20/") + part);
    small().put(io, std::string("run/checkpoints/global_step_30/") + part);
  }
  io.put("run/logs/7/out.log", "x");
  CHECK(steps(io) == Lines{"20 checkpoints/global_step_20", "30 checkpoints/global_step_30"});
  CHECK(parts_of(io, "run/checkpoints/global_step_20") ==
        Lines{"run/checkpoints/global_step_20/model/ckpt", "run/checkpoints/global_step_20/model/optimizer"});
  std::vector<Step> broken;
  CHECK(error_id([&] { find_step(io, {"run", "latest", ""}, {}, broken); }) == "step_in_parts");
  io.take("run/checkpoints/global_step_30/model/optimizer/.metadata");
  CHECK(error_id([&] { find_step(io, {"run", "latest", ""}, {}, broken); }) == "step_in_parts");
  REQUIRE(broken.size() == 1);
  CHECK(broken[0].path == "run/checkpoints/global_step_30");
}

TEST_CASE("modules of a model may have numbers; steps of experiments are no parts of one") {
  FakeIo io;
  for (const char* part : {"model/qwen2/ckpt", "model/qwen2/optimizer", "model/expert_0"})
    small().put(io, std::string("run/step-1/") + part);
  for (const char* part : {"pytorch_model_fsdp_0", "pytorch_model_fsdp_1", "optimizer_0"})
    small().put(io, std::string("run/step-2/") + part);
  CHECK(steps(io) == Lines{"1 step-1", "2 step-2"});
  for (const char* below : {"step-10", "checkpoint/step-10", "models/step-10", "models/10", "save5"}) {
    FakeIo other;
    small().put(other, std::string("run/exp1/") + below);
    CHECK(parts_of(other, "run/exp1").empty());
    const RunFolder one = find_run(other, "run", "");
    REQUIRE(one.steps.size() == 1);
    CHECK(one.steps[0].path == std::string("run/exp1/") + below);
    small().put(other, std::string("run/exp2/") + below);
    CHECK(error_id([&] { find_run(other, "run", ""); }) == "step_ambiguous");
  }
}

TEST_CASE("once a step has a mark of a complete save, newer ones without are not complete") {
  for (const char* mark : {"checkpoint_manifest.json", "_SUCCESS", ".complete"}) {
    FakeIo io;
    for (const char* name : {"step-1", "step-2", "step-3", "step-4"}) small().put(io, std::string("run/") + name);
    CHECK(found(io, "latest") == "run/step-4");
    io.put(std::string("run/step-2/") + mark, "");
    CHECK(steps(io) == Lines{"1 step-1", "2 step-2", "3 step-3, unmarked", "4 step-4, unmarked"});
    Lines passed_over;
    CHECK(found(io, "latest", &passed_over) == "run/step-2");
    CHECK(passed_over == Lines{"run/step-4: unfinished_save", "run/step-3: unfinished_save"});
    CHECK(found(io, "3") == "run/step-3");
    io.put("run/step-4/_SUCCESS", "");
    CHECK(found(io, "latest") == "run/step-4");
  }
}

TEST_CASE("the only checkpoint below a folder, unless a step is on the way") {
  for (const auto& [below, is_taken] : std::vector<std::pair<std::string, bool>>{{"ckpt", true},
                                                                                 {"pytorch_model_fsdp_0", true},
                                                                                 {"model_and_optim", true},
                                                                                 {"a/b/ckpt", true},
                                                                                 {"step-10", false},
                                                                                 {"checkpoints/step-10", false},
                                                                                 {"7", false},
                                                                                 {"tmp_ckpt", false}}) {
    FakeIo io;
    small().put(io, "run/" + below);
    CHECK(only_checkpoint_below(io, "run/") == (is_taken ? std::optional("run/" + below) : std::nullopt));
    small().put(io, "run/other");
    CHECK(only_checkpoint_below(io, "run") == (below == "tmp_ckpt" ? std::optional<std::string>("run/other") : std::nullopt));
  }
  FakeIo io;
  small().put(io, "run");
  small().put(io, "run/ckpt");
  CHECK_FALSE(only_checkpoint_below(io, "run"));
  CHECK_FALSE(only_checkpoint_below(io, "nowhere"));
}

TEST_CASE("a step by its number, whole or not") {
  FakeIo io;
  small().put(io, "run/step-1");
  io.put("run/step-3/__0_0.distcp", "x");
  CHECK(found(io, "1") == "run/step-1");
  CHECK(found(io, "3") == "run/step-3");
  CHECK(found(io, "0003") == "run/step-3");
  CHECK(error_line([&] { found(io, "2"); }) == "run: the run has no such step (got 2, expected one of 1, 3)");
  CHECK(error_line([&] { found(io, "newest"); }) == "got step newest, expected a number or 'latest'");
  std::vector<Step> broken;
  CHECK(error_id([&] { find_step(io, {"nowhere", "1", ""}, {}, broken); }) == "no_such_path");
  FakeIo none;
  none.put("run/step-3/__0_0.distcp", "x");
  CHECK(error_line([&] { find_step(none, {"run", "latest", ""}, {}, broken); }) ==
        "run: the run has no such step (got no complete step, expected one of 3)");
}
