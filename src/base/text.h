// Small questions about text.
#pragma once

#include <string_view>

namespace dcp {

inline bool is_digits(std::string_view text) { return !text.empty() && text.find_first_not_of("0123456789") == text.npos; }

// Without blanks at both ends.
inline std::string_view trimmed(std::string_view text, std::string_view blanks = " \t\r") {
  const size_t begin = text.find_first_not_of(blanks);
  return begin == text.npos ? std::string_view() : text.substr(begin, text.find_last_not_of(blanks) - begin + 1);
}

}  // namespace dcp
