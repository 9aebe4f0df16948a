#include "line/problem_words.h"

#include <catch2/catch_test_macros.hpp>

#include "line/context.h"
#include "line/exit_status.h"
#include "report/findings.h"

namespace dcp::cmd {
namespace {

Problem with(ProblemId id, Remedy remedy) {
  Problem p = make_problem(id, {});
  p.hint.clear();
  p.remedy = remedy;
  return p;
}

TEST_CASE("a problem that has no hint of its own gets the command line's") {
  CHECK(worded(make_problem(ProblemId::output_exists, {})).hint ==
        "give another name, or --force to replace it when the new one is complete");
  CHECK(worded(make_problem(ProblemId::memory_cap, {})).what == "the work does not fit within --max-memory");
  Problem own = make_problem(ProblemId::output_exists, {});
  own.hint = "its own";
  own.what = "its own text";
  CHECK(worded(own).hint == "its own");
  CHECK(worded(own).what == "its own text");
}

TEST_CASE("a remedy names the option, with the value that is enough") {
  Problem p = with(ProblemId::memory_cap, Remedy::kMoreMemory);
  CHECK(worded(p).hint == "give a larger --max-memory");
  p.enough_bytes = 12 << 20;
  CHECK(worded(p).hint == "give --max-memory 12MiB");
  p.remedy = Remedy::kMoreMemoryOrFewerKeys;
  CHECK(worded(p).hint == "give --max-memory 12MiB, or leave the key out with --exclude");
  CHECK(worded(worded(p)).hint == worded(p).hint);
}

TEST_CASE("a list in a hint ends where it would be too long, and a hint without its value is none") {
  Problem p = with(ProblemId::step_ambiguous, Remedy::kOneOrLatest);
  p.names = {"1", "2", "3", "4", "5"};
  CHECK(worded(p).hint == "give --step latest, or one of them: 1, 2, 3, 4, 5");
  p.names.push_back("6");
  CHECK(worded(p).hint == "give --step latest, or one of them: 1, 2, 3, 4, 5, ... (6 in all)");
  CHECK(worded(with(ProblemId::whole_steps_lacking, Remedy::kOfId)).hint.empty());
}

TEST_CASE("what a remedy expects is put around what the problem expects") {
  Problem p = with(ProblemId::usage, Remedy::kBelowWorldSize);
  p.expected = "4";
  CHECK(worded(p).expected == "below --world-size 4");
  CHECK(worded(with(ProblemId::usage, Remedy::kMesh)).expected == "--mesh, such as 2x4");
}

TEST_CASE("a setting is named as an option, a working file by the output's name") {
  CHECK(option_of("prefer_rank") == "--prefer-rank");
  Problem p = make_problem(ProblemId::usage, {.setting = "prefer_rank"}, "9");
  CHECK(to_line(worded(p)).ends_with("--prefer-rank 9"));
  CHECK(worded(make_problem(ProblemId::io_write, {.path = "dir/.out.pt.dcpctl-partial"})).place.path == "dir/out.pt");
  CHECK(worded(make_problem(ProblemId::io_write, {.path = "out/.dcpctl-lock"})).place.path == "out");
  CHECK(worded(make_problem(ProblemId::short_file, {.path = ".a.dcpctl-partial"})).place.path == ".a.dcpctl-partial");  // an input
}

TEST_CASE("the exit code is that of the problem's class") {
  CHECK(exit_of(ProblemId::expect_differs) == Exit::kAnswerNo);
  CHECK(exit_of(ProblemId::usage) == Exit::kUsage);
  CHECK(exit_of(ProblemId::zip_no_end) == Exit::kInput);
  CHECK(exit_of(ProblemId::io_no_space) == Exit::kMachine);
  CHECK(exit_of(ProblemId::device_missing) == Exit::kLacking);
  CHECK(exit_of(ProblemId::interrupted) == Exit::kInterrupted);
  CHECK(exit_of(ProblemId::terminated) == Exit::kTerminated);
}

TEST_CASE("findings of one kind are in natural order, and kinds stay where they are") {
  std::vector<Problem> found;
  const auto add = [&](ProblemId id, const char* path) { found.push_back(make_finding(id, Severity::kDamage, {.path = path})); };
  add(ProblemId::crc_mismatch, "__0_10.distcp");
  add(ProblemId::crc_mismatch, "__0_2.distcp");
  add(ProblemId::file_missing, "__0_1.distcp");
  add(ProblemId::crc_mismatch, "__0_0.distcp");
  sort_naturally(found);
  std::string order;
  for (const Problem& p : found) order += p.place.path.substr(2, p.place.path.find('.') - 2) + " ";
  CHECK(order == "0_2 0_10 0_1 0_0 ");
}

TEST_CASE("--fail-on: what makes the answer no") {
  const auto fails_for = [](std::vector<std::string> classes, ProblemId id, Severity severity) {
    return fails({.classes = std::move(classes)}, {make_finding(id, severity, {})});
  };
  CHECK_FALSE(fails_for({}, ProblemId::crc_mismatch, Severity::kDamage));
  CHECK(fails_for({"damage"}, ProblemId::crc_mismatch, Severity::kDamage));
  CHECK_FALSE(fails_for({"damage"}, ProblemId::crc_absent, Severity::kWarning));
  CHECK(fails_for({"warnings"}, ProblemId::crc_absent, Severity::kWarning));
  CHECK(fails_for({"warnings"}, ProblemId::crc_mismatch, Severity::kDamage));
  CHECK_FALSE(fails_for({"warnings"}, ProblemId::crc_absent, Severity::kNote));
  CHECK(fails_for({"unsafe"}, ProblemId::pickle_unsafe, Severity::kWarning));
  CHECK(fails_for({"unsafe"}, ProblemId::crc_mismatch, Severity::kDamage));  // what cannot be read may be anything
  CHECK_FALSE(fails_for({"unsafe"}, ProblemId::crc_absent, Severity::kWarning));
  CHECK(fails_for({"unsafe", "warnings"}, ProblemId::crc_absent, Severity::kWarning));
}

}  // namespace
}  // namespace dcp::cmd
