// Numbers in names and on command lines.
#pragma once

#include <algorithm>
#include <charconv>
#include <concepts>
#include <optional>
#include <string>
#include <string_view>

namespace dcp {

// Parses all of `text`; nullopt if it is not a number, or the number is too large.
template <std::integral Number>
std::optional<Number> decimal(std::string_view text) {
  Number n = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), n);
  return error == std::errc{} && end == text.data() + text.size() ? std::optional(n) : std::nullopt;
}

// Formats a finite number as Python prints a float: the fewest digits that are read back as the same number, such as 0.0003 or 1e-05.
template <std::floating_point Number>
std::string python_float(Number number) {
  char text[64];
  char* end = std::to_chars(text, text + sizeof text, number, std::chars_format::scientific).ptr;
  const char* const sign = std::find(text, end, 'e') + 1;
  const int power = *decimal<int>(std::string_view(sign + 1, end));
  if (power > (*sign == '-' ? 4 : 15)) return {text, end};
  end = std::to_chars(text, text + sizeof text, number, std::chars_format::fixed).ptr;
  const std::string fixed(text, end);
  return fixed.find('.') == fixed.npos ? fixed + ".0" : fixed;
}

}  // namespace dcp
