// Untrusted JSON as a sequence of values, each with its keys, for small documents of known form such as an index of files. JSON strings as two
// other writers write them.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>

#include "base/limits.h"
#include "base/problem.h"

namespace dcp {

struct JsonValue {
  enum class Kind : uint8_t { kObject, kArray, kText, kNatural, kNull, kFalse, kTrue, kOther };  // kObject, kArray: the opening bracket
  Kind kind = Kind::kOther;
  std::string_view text;  // kText
  uint64_t number = 0;    // kNatural: a non-negative integer, also written as 3.0
};

// `keys` are those of the objects around the value, outermost first; "" for an array's element.
using JsonVisitor = std::function<void(std::span<const std::string> keys, const JsonValue& value)>;

// `json` must be an object. Throws `bad` with the position for invalid JSON, over_limit for nesting; adds the offset of `place`.
void walk_json(std::string_view json, const Place& place, const Limits& limits, ProblemId bad, const JsonVisitor& visit);

// Writes JSON strings, byte for byte as two other writers do.

enum class JsonText {
  kUtf8,   // Rust's serde_json: text beyond ASCII as it is
  kAscii,  // Python's json.dumps: DEL and text beyond ASCII as \uXXXX, in surrogate pairs above U+FFFF
};

// Appends `text` in quotes. False, with `out` unchanged, if `text` is not valid UTF-8: no JSON string can hold it.
bool append_json_text(std::string& out, std::string_view text, JsonText form);

}  // namespace dcp
