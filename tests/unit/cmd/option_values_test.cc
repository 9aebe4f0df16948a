#include "line/option_values.h"

#include <catch2/catch_test_macros.hpp>

#include "base/error_line.h"
#include "base/problem.h"

namespace dcp::cmd {
namespace {

using test::error_line;

TEST_CASE("a list is split at its commas, and an empty part stays one") {
  CHECK(split_list("a") == std::vector<std::string>{"a"});
  CHECK(split_list("a,b") == std::vector<std::string>{"a", "b"});
  CHECK(split_list("a,,b,") == std::vector<std::string>{"a", "", "b", ""});
  CHECK(split_list("") == std::vector<std::string>{""});
}

TEST_CASE("a word in a message can be pasted into a shell") {
  CHECK(shell_word("run/step-1,2=a@b:c%+") == "run/step-1,2=a@b:c%+");
  CHECK(shell_word("") == "''");
  CHECK(shell_word("my run") == "my\\ run");
  CHECK(shell_word("$(rm)*") == "\\$\\(rm\\)\\*");
  CHECK(shell_word("Größe") == "Größe");
  CHECK(shell_word("a\nb'c\\") == "$'a\\012b\\'c\\\\'");  // what a message would escape
  CHECK(shell_quoted("it's $HOME") == "'it'\\''s $HOME'");
}

TEST_CASE("a count is a whole number in its range") {
  CHECK(parse_count("1", "--streams", 1, 16) == 1);
  CHECK(parse_count("16", "--streams", 1, 16) == 16);
  for (const char* text : {"0", "17", "-1", "1.5", "2x", " 2", "", "99999999999999999999"}) {
    CAPTURE(text);
    CHECK(error_line([&] { parse_count(text, "--streams", 1, 16); }) ==
          "the command line is wrong (got --streams '" + std::string(text) + "', expected numbers from 1 to 16 with commas between)");
  }
}

TEST_CASE("a percentage is above 0 and up to 100, with its sign or without") {
  CHECK(parse_percent("5%", "--sample") == 5);
  CHECK(parse_percent("0.25", "--sample") == 0.25);
  CHECK(parse_percent("100%", "--sample") == 100);
  for (const char* text : {"0", "0%", "100.1%", "-5%", "nan", "5 %", "5%%", "%", ""}) {
    CAPTURE(text);
    CHECK(error_line([&] { parse_percent(text, "--sample"); }) ==
          "the command line is wrong (got --sample '" + std::string(text) + "', expected a percentage above 0, such as 5%)");
  }
}

TEST_CASE("a tolerance is a finite number from 0 on") {
  CHECK(parse_tolerance("0", "--atol") == 0);
  CHECK(parse_tolerance("1e-5", "--atol") == 1e-5);
  for (const char* text : {"-1e-5", "inf", "nan", "1e-5x", "1,5", ""}) {
    CAPTURE(text);
    CHECK(error_line([&] { parse_tolerance(text, "--atol"); }) ==
          "the command line is wrong (got --atol '" + std::string(text) + "', expected a number from 0 on, such as 1e-5)");
  }
}

TEST_CASE("a dtype has torch's name, a short one, or is spelled as elsewhere") {
  CHECK(parse_dtype("bfloat16") == DType::bfloat16);
  CHECK(parse_dtype("bf16") == DType::bfloat16);
  CHECK(parse_dtype("BF16") == DType::bfloat16);
  CHECK(parse_dtype("torch.float32") == DType::float32);
  CHECK(parse_dtype("f8e5m2") == DType::float8_e5m2);
  for (const std::string& name : dtype_names()) CHECK_NOTHROW(parse_dtype(name));
}

TEST_CASE("a dtype that nothing is cast to is refused, with all that there are") {
  const auto refused = [](const std::string& text) {
    try {
      parse_dtype(text);
    } catch (const Error& e) {
      return e.problem();
    }
    return Problem{};
  };
  CHECK(refused("int8").got == "dtype 'int8'");
  CHECK(refused("int8").expected.starts_with("float64, float32, float16, bfloat16, "));
  CHECK(refused("int8").expected.ends_with(", f8e4m3 or f8e5m2"));
  CHECK(refused("int8").hint.empty());
  CHECK(refused("fp8").hint == "float8_e4m3fn for weights, float8_e5m2 for a wider range");
  CHECK(refused("").got == "dtype ''");
}

}  // namespace
}  // namespace dcp::cmd
