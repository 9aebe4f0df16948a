// Writes JSON strings, byte for byte as two other writers do.
#pragma once

#include <string>
#include <string_view>

namespace dcp {

enum class JsonText {
  kUtf8,   // Rust's serde_json: text beyond ASCII as it is
  kAscii,  // Python's json.dumps: DEL and text beyond ASCII as \uXXXX, in surrogate pairs above U+FFFF
};

// Appends `text` in quotes. False, with `out` unchanged, if `text` is not valid UTF-8: no JSON string can hold it.
bool append_json_text(std::string& out, std::string_view text, JsonText form);

}  // namespace dcp
