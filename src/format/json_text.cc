#include "format/json_text.h"

#include <cstdint>

#include "base/quantity.h"
#include "base/utf8.h"

namespace dcp {
namespace {

void append_unit(std::string& out, uint32_t unit) { out += "\\u" + hex(unit, 4); }

void append_ascii(std::string& out, char32_t c) {
  if (c <= 0xFFFF) return append_unit(out, c);
  append_unit(out, 0xD800 + ((c - 0x10000) >> 10));
  append_unit(out, 0xDC00 + ((c - 0x10000) & 0x3FF));
}

// The short escape that both writers use for a character; 0: it has none.
char short_escape(char c) {
  switch (c) {
    case '"':
    case '\\': return c;
    case '\b': return 'b';
    case '\f': return 'f';
    case '\n': return 'n';
    case '\r': return 'r';
    case '\t': return 't';
    default: return 0;
  }
}

}  // namespace

bool append_json_text(std::string& out, std::string_view text, JsonText form) {
  const size_t start = out.size();
  out += '"';
  while (!text.empty()) {
    const CodePoint c = first_code_point(text);
    if (c.size == 0) {
      out.resize(start);
      return false;
    }
    if (const char escape = c.size == 1 ? short_escape(text[0]) : '\0'; escape != 0) {
      out += '\\';
      out += escape;
    } else if (c.value < 0x20) {
      append_unit(out, c.value);
    } else if (c.value >= 0x7F && form == JsonText::kAscii) {
      append_ascii(out, c.value);
    } else {
      out += text.substr(0, c.size);
    }
    text.remove_prefix(c.size);
  }
  out += '"';
  return true;
}

}  // namespace dcp
