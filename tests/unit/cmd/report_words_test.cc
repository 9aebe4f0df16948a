#include <array>
#include <catch2/catch_test_macros.hpp>
#include <limits>
#include <span>

#include "base/error_line.h"
#include "report/object_text.h"
#include "report/selection_report.h"
#include "report/step_text.h"
#include "report/values_text.h"
#include "request/dtype_flags.h"
#include "request/model_file.h"

namespace dcp::cmd {
namespace {

using test::error_line;
constexpr uint64_t kSecond = 1'000'000'000;

TEST_CASE("a time has a unit, but where 7 cannot be meant as days") {
  const auto seconds = [](const char* text, Seconds form) { return parse_duration(text, "--older-than", form) / kSecond; };
  CHECK(seconds("0", Seconds::kWithUnit) == 0);
  CHECK(seconds("90s", Seconds::kWithUnit) == 90);
  CHECK(seconds("10min", Seconds::kWithUnit) == 600);
  CHECK(seconds("10m", Seconds::kWithUnit) == 600);
  CHECK(seconds("12h", Seconds::kWithUnit) == 43200);
  CHECK(seconds("7d", Seconds::kWithUnit) == 604800);
  CHECK(seconds("2w", Seconds::kWithUnit) == 1209600);
  CHECK(seconds("7", Seconds::kWithoutUnit) == 7);
  CHECK(seconds("5000w", Seconds::kWithUnit) == 5000ull * 604800);
  for (const char* text : {"7", "soon", "", "-1d", "1.5h", "1 h", "5300w", "99999999999999999999s", "1y"}) {
    CAPTURE(text);
    CHECK(error_line([&] { seconds(text, Seconds::kWithUnit); }) ==
          "got --older-than '" + std::string(text) + "', expected a time such as 90s, 10min, 12h, 7d or 2w");
  }
}

TEST_CASE("an age changes its unit at two of the next one") {
  const auto age = [](int64_t s) {
    StepFacts step;
    step.modified_ns = 1;
    return age_text(step, 1 + s * static_cast<int64_t>(kSecond));
  };
  CHECK(age(-5) == "0 s");
  CHECK(age(119) == "119 s");
  CHECK(age(120) == "2 min");
  CHECK(age(7199) == "119 min");
  CHECK(age(7200) == "2 h");
  CHECK(age(2 * 86400 - 1) == "47 h");
  CHECK(age(2 * 86400) == "2 d");
  CHECK(age_text({}, 1) == "-");
}

TEST_CASE("why a step is not whole is said without the step's own path") {
  const std::string path = "run/step-5";
  CHECK(fault_text(make_problem(ProblemId::file_missing, {.path = path + "/__1_0.distcp"}), path) ==
        "__1_0.distcp: a data file of the checkpoint is missing");
  CHECK(fault_text(make_problem(ProblemId::not_checkpoint, {.path = path}, "no .metadata\n"), path) == "no .metadata\\x0a");
}

TEST_CASE("keys that were left out: the first ones, and how many more") {
  LeftOut left_out;
  CHECK(names_of(left_out).empty());
  left_out.add("a");
  left_out.add("b\n");
  CHECK(names_of(left_out) == ": a, b\\x0a");
  for (int i = 0; i < 2000; ++i) left_out.add("x");
  CHECK(names_of(left_out) == ": {a, b\\x0a, x} and 1,002 more");
  const std::vector<std::string> few{"c.0.w", "a.b.0", "a.c", "b", "c.1.w", "c.2.w", "d"};
  CHECK(folded_names(few) == "c.0.w, a.b.0, a.c, b, c.1.w, c.2.w, d");
  std::vector<std::string> many = few;
  for (const char* more : {"c.0.x.y", "c.4.z", "a.e.f", "a.g.h.i"}) many.emplace_back(more);
  CHECK(folded_names(many) == "c.* (5), a.* (4), {b, d}");
  CHECK(folded_names({"c.0.w", "c.1.w", "d"}, 7) == "c.0.w, c.1.w, d and 4 more");
  CHECK(unmatched_lines({{"exclude", "optim*"}, {"rename", "a=>b"}}) ==
        std::vector<std::string>{"--exclude optim* matches no key", "--rename a=>b matches no key"});
}

TEST_CASE("options of casts ask for a dtype to cast to") {
  CHECK(error_line([] { DtypeFlags{}.options(); }) == "no error");
  CHECK(error_line([] { DtypeFlags{.raw = true}.options(); }) == "got --raw without --dtype, expected --dtype D");
  CHECK(error_line([] { DtypeFlags{.scope = "all", .rules = {"a=bf16"}}.options(); }).find("--dtype-scope without") != std::string::npos);
  CHECK(error_line([] { DtypeFlags{.rules = {"=bf16"}}.options(); }).find("expected GLOB=DTYPE or GLOB=keep") != std::string::npos);
  const DtypeOptions o = DtypeFlags{.dtype = "bf16", .scope = "all", .rules = {"a=b=keep", "c=fp16"}}.options();
  CHECK(o.dtype == DType::bfloat16);
  CHECK(o.scope == DtypeScope::kAll);
  REQUIRE(o.rules.size() == 2);
  CHECK(o.rules[0].glob == "a=b");  // a key may hold '='
  CHECK_FALSE(o.rules[0].dtype);
  CHECK(o.rules[1].dtype == DType::float16);
}

TEST_CASE("what was cast is counted") {
  CastSummary casts;
  casts.tensors = 1, casts.bytes_before = 2048, casts.bytes_after = 1024;
  CHECK(cast_text(casts) == "cast 1 tensor: 2.0 KiB become 1.0 KiB");
  casts.tensors = 2, casts.models = {"", "ema"};
  CHECK(cast_text(casts) == "cast 2 tensors of several models ((top level), ema): 2.0 KiB become 1.0 KiB");
}

TEST_CASE("a folder is not named like a file") {
  for (const char* name : {"out", "out/", "step-1.5", "a.pt/b"}) CHECK_NOTHROW(check_folder_name(name));
  for (const char* name : {"out.pt", "out.PT", "a/out.safetensors/", "out.bin"}) {
    CAPTURE(name);
    CHECK(error_line([&] { check_folder_name(name); }).ends_with("got the name of a file, expected a folder"));
  }
}

std::string shown(const std::string& pickle, size_t columns = 80) {
  const PickleGraph graph({reinterpret_cast<const std::byte*>(pickle.data()), pickle.size()}, {}, {});
  return object_text(graph, columns, PrintBound(graph, {}));
}

TEST_CASE("an object is shown as Python prints it, in lines where it is long") {
  const std::string dict = "}(\x8c\x02lrK\x01\x8c\x05"
                           "betas(K\x02K\x03tu.";
  CHECK(shown(dict) == "{'lr': 1, 'betas': (2, 3)}\n");
  CHECK(shown(dict, 12) == "{\n  'lr': 1,\n  'betas': (\n    2,\n    3\n  )\n}\n");
  CHECK(shown("\x8c\x06it's\n\x1b.") == "'it\\'s\\n\\x1b'\n");
  CHECK(shown("N.") == "None\n");
  CHECK(shown("]q\x01h\x01"
              "a.") == "[...]\n");                                         // inside itself
  CHECK(shown("cos\nsystem\n(\x8c\x04truetR.") == "os.system('true')\n");  // shown, not called
}

TEST_CASE("an element is shown as Python prints it") {
  const auto element = [](DType dtype, auto value) { return element_text(dtype, std::as_bytes(std::span(&value, 1))); };
  CHECK(element(DType::float32, 0.1f) == "0.1");
  CHECK(element(DType::float64, 2.0) == "2.0");
  CHECK(element(DType::float32, -std::numeric_limits<float>::infinity()) == "-inf");
  CHECK(element(DType::float32, std::numeric_limits<float>::quiet_NaN()) == "nan");
  CHECK(element(DType::bfloat16, uint16_t{0x3F80}) == "1.0");
  CHECK(element(DType::int8, int8_t{-128}) == "-128");
  CHECK(element(DType::uint64, ~uint64_t{0}) == "18446744073709551615");
  CHECK(element(DType::bool_, uint8_t{1}) == "True");
  CHECK(element(DType::complex64, std::array{1.0f, -2.5f}) == "(1.0-2.5j)");
}

}  // namespace
}  // namespace dcp::cmd
