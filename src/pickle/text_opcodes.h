// Rewrites pickles of protocols 0 and 1, whose numbers and texts are lines, into the binary opcodes that all readers here know.
//
// These opcodes are rewritten, with their escapes as CPython's Lib/pickle.py reads them: INT and LONG (decimal, hexadecimal and octal, up
// to 64 bits; INT of "00" and "01" is a bool), FLOAT, STRING (in quotes, ASCII), UNICODE (raw-unicode-escape), GET, PUT. INST and OBJ,
// which only Python 2 wrote, and PERSID are left to TokenReader, which refuses them.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "base/bytes.h"
#include "base/limits.h"
#include "base/problem.h"

namespace dcp {

// Rewrites a pickle that does not begin with PROTO, which protocols 0 and 1 do not have. nullopt: it needs no rewriting. Offsets in
// messages about the result count in the rewritten pickle. Throws Error: pickle_truncated, pickle_operand, memory_cap.
std::optional<std::vector<std::byte>> binary_form(Bytes pickle, const Place& place, const Limits& limits);

}  // namespace dcp
