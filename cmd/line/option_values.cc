#include "line/option_values.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <span>

#include "base/problem.h"
#include "base/text.h"
#include "select/dtypes.h"

namespace dcp::cmd {

std::vector<std::string> split_list(const std::string& list) {
  const std::vector<std::string_view> parts = split(list, ',');
  return {parts.begin(), parts.end()};
}

std::string shell_quoted(std::string_view text) {
  std::string out = "'";
  for (const char c : text) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return out + "'";
}

namespace {

// $'...': every byte that a message would not show as it is becomes a number.
std::string ansi_quoted(std::string_view text) {
  std::string out = "$'";
  for (const char c : text) {
    char number[8];
    std::snprintf(number, sizeof number, "\\%03o", static_cast<unsigned char>(c));
    if (c < 0x20 || c == 0x7F) out += number;
    else out += c == '\'' || c == '\\' ? std::string{'\\', c} : std::string{c};
  }
  return out + "'";
}

}  // namespace

std::string shell_word(std::string_view text) {
  if (escaped(text) != text) return ansi_quoted(text);
  std::string out;
  for (const char c : text) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || static_cast<signed char>(c) < 0 ||
                       std::string_view("_./-+=@%:,").find(c) != std::string_view::npos;
    out.append(plain ? "" : "\\").append(1, c);
  }
  return out.empty() ? "''" : out;
}

unsigned parse_count(const std::string& text, const char* option, unsigned min, unsigned max) {
  const auto n = decimal<unsigned>(text);
  if (!n || *n < min || *n > max)
    fail(ProblemId::usage, {}, std::string(option) + " '" + text + "'",
         "numbers from " + std::to_string(min) + " to " + std::to_string(max) + " with commas between");
  return *n;
}

double parse_percent(const std::string& text, std::string_view option) {
  const auto percent = decimal<double>(std::string_view(text).substr(0, text.size() - (text.ends_with('%') ? 1 : 0)));
  if (!percent || !(*percent > 0 && *percent <= 100))
    fail(ProblemId::usage, {}, std::string(option) + " '" + text + "'", "a percentage above 0, such as 5%");
  return *percent;
}

double parse_tolerance(const std::string& text, std::string_view option) {
  const auto value = decimal<double>(text);
  if (!value || !std::isfinite(*value) || *value < 0)
    fail(ProblemId::usage, {}, std::string(option) + " '" + text + "'", "a number from 0 on, such as 1e-5");
  return *value;
}

namespace {

constexpr std::pair<std::string_view, DType> kShortNames[] = {{"fp32", DType::float32},
                                                              {"fp16", DType::float16},
                                                              {"bf16", DType::bfloat16},
                                                              {"f8e4m3", DType::float8_e4m3fn},
                                                              {"f8e5m2", DType::float8_e5m2}};

// As torch names them, too, or numpy.
constexpr std::pair<std::string_view, DType> kOtherNames[] = {
    {"half", DType::float16}, {"float", DType::float32}, {"double", DType::float64}, {"bfloat", DType::bfloat16}, {"bf", DType::bfloat16}};

// As it is typed elsewhere: torch.bfloat16, BF16.
std::string plain_name(std::string_view text) { return lowered(text.substr(text.starts_with("torch.") ? 6 : 0)); }

}  // namespace

std::vector<std::string> dtype_names() {
  std::vector<std::string> names;
  for (size_t i = 0; i < static_cast<size_t>(DType::kCount); ++i)
    if (is_cast_target(static_cast<DType>(i))) names.emplace_back(facts_of(static_cast<DType>(i)).name);
  for (const auto& [name, ignored] : kShortNames) names.emplace_back(name);
  return names;
}

DType parse_dtype(const std::string& typed) {
  const std::string text = plain_name(typed);
  for (const auto& names : {std::span<const std::pair<std::string_view, DType>>(kShortNames), {kOtherNames}})
    for (const auto& [name, dtype] : names)
      if (text == name) return dtype;
  const std::optional<DType> dtype = dtype_named(text);
  if (dtype && is_cast_target(*dtype)) return *dtype;
  const std::vector<std::string> names = dtype_names();
  std::string known;
  for (size_t i = 0; i < names.size(); ++i) known += (i == 0 ? "" : i + 1 == names.size() ? " or " : ", ") + names[i];
  Problem p = make_problem(ProblemId::usage, {}, "dtype '" + typed + "'", known);
  if (text == "fp8" || text == "float8") p.hint = "float8_e4m3fn for weights, float8_e5m2 for a wider range";
  throw Error(std::move(p));
}

uint64_t parse_size(const std::string& text) {
  struct Unit {
    std::string_view name;
    uint64_t bytes;
  };
  constexpr Unit kUnits[] = {
      {"", 1},         {"b", 1},       {"k", 1024},      {"kib", 1024},      {"kb", 1000},      {"m", 1 << 20},      {"mib", 1 << 20},
      {"mb", 1000000}, {"g", 1 << 30}, {"gib", 1 << 30}, {"gb", 1000000000}, {"t", 1ull << 40}, {"tib", 1ull << 40}, {"tb", 1000000000000}};
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  const std::string unit = lowered({end, text.data() + text.size()});
  for (const Unit& u : kUnits)
    if (error == std::errc{} && u.name == unit && number >= 0 && number * static_cast<double>(u.bytes) < 9e18)
      return static_cast<uint64_t>(number * static_cast<double>(u.bytes));
  fail(ProblemId::usage, {}, "size '" + text + "'", "a number with B, k, KiB, MB, MiB, GB or GiB");
}

}  // namespace dcp::cmd
