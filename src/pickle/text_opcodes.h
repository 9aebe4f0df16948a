// Pickles of protocols 0 and 1, whose numbers and texts are lines: rewritten into the binary opcodes that all readers here know.
//
// Rewritten, with their escapes as CPython's Lib/pickle.py reads them: INT and LONG (decimal, hexadecimal and octal, up to 64 bits; INT of
// "00" and "01" is a bool), FLOAT, STRING (in quotes, ASCII), UNICODE (raw-unicode-escape), GET, PUT. INST and OBJ, which only Python 2
// wrote, and PERSID are left to TokenReader, which refuses them.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "base/bytes.h"
#include "base/limits.h"
#include "base/problem.h"

namespace dcp {

// The rewritten pickle of one that does not begin with PROTO, as protocols 0 and 1 do not; nullopt: leave it as it is. Offsets in messages
// about the result are its own. Throws Error: pickle_truncated, pickle_operand, memory_cap.
std::optional<std::vector<std::byte>> binary_form(Bytes pickle, const Place& place, const Limits& limits);

}  // namespace dcp
