// Numbers in names and on command lines.
#pragma once

#include <charconv>
#include <concepts>
#include <optional>
#include <string_view>

namespace dcp {

// What all of `text` says; nullopt: something else, or a number that is too large.
template <std::integral Number>
std::optional<Number> decimal(std::string_view text) {
  Number n = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), n);
  return error == std::errc{} && end == text.data() + text.size() ? std::optional(n) : std::nullopt;
}

}  // namespace dcp
