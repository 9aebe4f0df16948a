#include "base/problem.h"

#include <catch2/catch_test_macros.hpp>

#include "base/text.h"

namespace dcp {
namespace {

TEST_CASE("a line holds path, member, offset, tensor, got and expected, each only when known") {
  const auto line = [](Place place, std::string got = {}, std::string expected = {}) {
    return to_line(make_problem(ProblemId::short_file, std::move(place), std::move(got), std::move(expected)));
  };
  const std::string what = "the file ends before the bytes that belong there";
  CHECK(line({}) == what);
  CHECK(line({.path = "a/b"}) == "a/b: " + what);
  CHECK(line({.path = "a", .member = "data.pkl"}) == "a > data.pkl: " + what);
  CHECK(line({.path = "a", .offset = 0}) == "a @ 0x0: " + what);
  CHECK(line({.path = "a", .member = "m", .tensor = "w.0", .offset = 0x1F4, .length = 8}, "3 bytes", "8 bytes") ==
        "a > m @ 0x1f4: tensor 'w.0': " + what + " (got 3 bytes, expected 8 bytes)");
  CHECK(line({.path = "a.map", .line = 12, .column = 3}) == "a.map:12:3: " + what);
  CHECK(line({.path = "a.map", .line = 12}) == "a.map:12: " + what);
  CHECK(line({.tensor = "w"}) == "tensor 'w': " + what);
  CHECK(line({.path = "a"}, "x") == "a: " + what + ": x");
  CHECK(line({.path = "a"}, "", "y") == "a: " + what + " (expected y)");
}

TEST_CASE("an error carries its problem, line and exit class") {
  try {
    fail(ProblemId::output_busy, Place{.path = "out"});
    FAIL("not reached");
  } catch (const Error& error) {
    CHECK(std::string(error.what()) == "out: another dcpctl is writing this output");
    CHECK(class_of(error.problem().id) == ProblemClass::kUsage);
    CHECK(id_name(error.problem().id) == "output_busy");
    CHECK(error.problem().hint == "wait for it, or give another name");
    CHECK(error.problem().severity == Severity::kError);
  }
}

TEST_CASE("of one kind of finding the first are kept, the others counted") {
  std::vector<Problem> list;
  FindingList findings(list);
  for (int i = 0; i < 25'000; ++i) findings.add(make_problem(ProblemId::item_twice, {.tensor = "w"}));
  findings.add(make_problem(ProblemId::short_file, {}, "3 bytes"));
  findings.end();
  REQUIRE(list.size() == 10'001);
  CHECK(list[9'998].got.empty());
  CHECK(list[9'999].got == "and 15000 more");
  CHECK(list[10'000].got == "3 bytes");

  std::vector<Problem> of_long_names;
  FindingList long_names(of_long_names);
  for (int i = 0; i < 100; ++i) long_names.add(make_problem(ProblemId::item_twice, {.tensor = std::string(1 << 20, 'x')}, "two"));
  long_names.end();
  REQUIRE(of_long_names.size() == 4);
  CHECK(of_long_names.back().got == "two, and 96 more");
}

TEST_CASE("behind the first, findings with new names are kept") {
  std::vector<Problem> list;
  FindingList findings(list);
  const auto add = [&](const std::string& name) {
    Problem p = make_problem(ProblemId::pickle_unsafe, {.path = "ckpt"});
    p.names = {name};
    findings.add(std::move(p));
  };
  for (int i = 0; i < 12'000; ++i) add("posix.system");
  for (int i = 0; i < 3; ++i) add("functools.partial");
  for (int i = 0; i < 20; ++i) add(std::string(1 << 20, static_cast<char>('a' + i)));
  findings.end();
  REQUIRE(list.size() == 10'009);
  CHECK(list[9'999].names[0] == "posix.system");
  CHECK(list[10'000].names[0] == "functools.partial");
  CHECK(list.back().got == "and 2014 more");
}

TEST_CASE("a long name is shown by its ends") {
  CHECK(shortened("a.b") == "a.b");
  CHECK(shortened(std::string(1 << 20, 'x')) == std::string(120, 'x') + "...(1048576 bytes)..." + std::string(60, 'x'));
}

TEST_CASE("each failure family has its exit class") {
  CHECK(class_of(ProblemId::usage) == ProblemClass::kUsage);
  CHECK(class_of(ProblemId::io_no_space) == ProblemClass::kMachine);
  CHECK(class_of(ProblemId::path_escapes) == ProblemClass::kInput);
  CHECK(class_of(ProblemId::interrupted) == ProblemClass::kInterrupted);
  CHECK(class_of(ProblemId::terminated) == ProblemClass::kTerminated);
}

TEST_CASE("what acts on a terminal is escaped") {
  CHECK(escaped("a\nb\tc") == "a\\x0ab\\x09c");
  CHECK(escaped("\x1b[31mred\x7f") == "\\x1b[31mred\\x7f");
  CHECK(escaped(std::string_view("nul\0!", 5)) == "nul\\x00!");
  CHECK(escaped("\xC2\x9B"
                "31m") == "\\u{009b}31m");  // the one-character form of ESC [
  CHECK(escaped("a\xE2\x80\xAE"
                "b\xE2\x81\xA6") == "a\\u{202e}b\\u{2066}");  // right-to-left override, isolate
  CHECK(escaped("\xE2\x80\xA8\xEF\xBB\xBF") == "\\u{2028}\\u{feff}");
}

TEST_CASE("ordinary text of any script stays as it is") {
  const std::string text = "schicht.gewicht-\xC3\xBC \xE6\xA8\xA1\xE5\x9E\x8B \xF0\x9F\x94\xA5 C:\\x";
  CHECK(escaped(text) == text);
  CHECK(escaped(escaped("\x1b\xff")) == escaped("\x1b\xff"));  // to_line escapes texts that may be escaped already
}

TEST_CASE("bytes that are not UTF-8 are shown one by one") {
  CHECK(escaped("\xff\xfe") == "\\xff\\xfe");
  CHECK(escaped("\xC3") == "\\xc3");                             // cut short
  CHECK(escaped("\xC0\xAF") == "\\xc0\\xaf");                    // overlong '/'
  CHECK(escaped("\xE0\x80\xAF") == "\\xe0\\x80\\xaf");           // overlong in three
  CHECK(escaped("\xED\xA0\x80") == "\\xed\\xa0\\x80");           // surrogate
  CHECK(escaped("\xF4\x90\x80\x80") == "\\xf4\\x90\\x80\\x80");  // above U+10FFFF
  CHECK(first_code_point("\xF4\x8F\xBF\xBF").value == 0x10FFFF);
}

TEST_CASE("every text of a line is escaped, whoever wrote it") {
  CHECK(to_line(make_problem(ProblemId::internal, {.path = "\x1b", .member = "\n", .tensor = "\r"}, "\a", "\b")) ==
        "\\x1b > \\x0a: tensor '\\x0d': internal error (got \\x07, expected \\x08)");
}

}  // namespace
}  // namespace dcp
