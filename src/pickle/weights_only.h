// What torch.load(weights_only=True) accepts and refuses: the names that a pickle imports, and its opcodes.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "base/limits.h"
#include "base/problem.h"
#include "pickle/tokens.h"

namespace dcp {

// Whether torch 2.15 accepts a global by default: "torch._utils._rebuild_tensor_v2". Python 2 names, which protocol 2 writes, count as
// their new ones ("__builtin__.set").
bool weights_only_allows(std::string_view global);

// Of those, the class or function that makes tensors or containers from whose name this one differs in one byte: damage that would otherwise
// turn a tensor into an object. "": it is none of these, or a name that some torch has.
std::string_view misspelt(std::string_view global);

// Whether it refuses a global even if a program allows it with torch.serialization.add_safe_globals: "posix.system".
bool weights_only_blocks(std::string_view global);

// Whether its unpickler knows the opcode: it stops at any other. torch's own pickles, of protocol 2, have no others.
constexpr bool weights_only_reads(Op op) {
  switch (op) {
    case Op::POP:
    case Op::POP_MARK:
    case Op::DUP:
    case Op::BINSTRING:
    case Op::LIST:
    case Op::DICT:
    case Op::LONG4:
    case Op::BINBYTES:
    case Op::SHORT_BINBYTES:
    case Op::SHORT_BINUNICODE:
    case Op::BINUNICODE8:
    case Op::BINBYTES8:
    case Op::ADDITEMS:
    case Op::FROZENSET:
    case Op::NEWOBJ_EX:
    case Op::STACK_GLOBAL:
    case Op::MEMOIZE:
    case Op::FRAME:
    case Op::BYTEARRAY8: return false;
    default: return true;
  }
}

// The refused globals of a pickle, distinct, in order of appearance. All imports count, whether its value uses them or not. The pickle's
// values are kept only if it takes names from its stack (protocol 4). Throws Error: pickle_*, over_limit; pickle_unloadable for a text that
// is not UTF-8.
std::vector<std::string> refused_globals(Bytes pickle, const Place& place, const Limits& limits);

}  // namespace dcp
