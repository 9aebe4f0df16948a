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

}  // namespace dcp
