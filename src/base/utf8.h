// UTF-8, one code point at a time: what escaping and JSON need, and no more.
#pragma once

#include <string_view>

namespace dcp {

struct CodePoint {
  char32_t value = 0;
  unsigned size = 0;  // bytes it takes, 1 to 4; 0: the first byte does not begin valid UTF-8
};

// The code point at the start of `text`, which is not empty. Strict as RFC 3629: no overlong forms, no surrogates, nothing above
// U+10FFFF.
CodePoint first_code_point(std::string_view text);

// Whether CPython accepts `text` in a pickle: UTF-8 in which encoded surrogates are allowed.
bool is_pickled_text(std::string_view text);

// Code points that act on a terminal or reorder what is read, though they are valid text. All lie below U+10000.
constexpr bool acts_on_terminal(char32_t c) {
  return c < 0x20 || (c >= 0x7F && c <= 0x9F)  // C0, DEL and C1: terminal escape codes begin with these (1B, 9B)
         || c == 0x061C || c == 0x200E || c == 0x200F || (c >= 0x202A && c <= 0x202E) || (c >= 0x2066 && c <= 0x2069)  // bidi
         || c == 0x2028 || c == 0x2029  // line and paragraph separator: a message stays one line
         || c == 0xFEFF;                // byte order mark: invisible
}

}  // namespace dcp
