// Numbers in names and on command lines.
#pragma once

#include <charconv>
#include <concepts>
#include <optional>
#include <string_view>

namespace dcp {

// Parses all of `text`; nullopt if it is not a number, or the number is too large.
template <std::integral Number>
std::optional<Number> decimal(std::string_view text) {
  Number n = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), n);
  return error == std::errc{} && end == text.data() + text.size() ? std::optional(n) : std::nullopt;
}

}  // namespace dcp
