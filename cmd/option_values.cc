#include "option_values.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>

#include "base/problem.h"

namespace dcp::cmd {

std::vector<std::string> split_list(const std::string& list) {
  std::vector<std::string> parts;
  for (size_t at = 0; at <= list.size();) {
    const size_t end = std::min(list.find(',', at), list.size());
    parts.push_back(list.substr(at, end - at));
    at = end + 1;
  }
  return parts;
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
  unsigned n = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), n);
  if (error != std::errc{} || end != text.data() + text.size() || n < min || n > max)
    fail(ProblemId::usage, {}, std::string(option) + " '" + text + "'",
         "numbers from " + std::to_string(min) + " to " + std::to_string(max) + " with commas between");
  return n;
}

double parse_percent(const std::string& text, std::string_view option) {
  double percent = 0;
  const char* last = text.data() + text.size() - (text.ends_with('%') ? 1 : 0);
  const auto [end, error] = std::from_chars(text.data(), last, percent);
  if (error != std::errc{} || end != last || !(percent > 0 && percent <= 100))
    fail(ProblemId::usage, {}, std::string(option) + " '" + text + "'", "a percentage above 0, such as 5%");
  return percent;
}

double parse_tolerance(const std::string& text, std::string_view option) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size() || !std::isfinite(value) || value < 0)
    fail(ProblemId::usage, {}, std::string(option) + " '" + text + "'", "a number from 0 on, such as 1e-5");
  return value;
}

}  // namespace dcp::cmd
