// The values that a pickle's opcodes make, 16 bytes each; containers are positions in the machine's arena (machine.h).
#pragma once

#include <cstdint>
#include <type_traits>

namespace dcp {

enum class Kind : uint8_t {
  kUnset,   // nothing yet: an empty memo slot, an object without state
  kNil,     // Python's None
  kBool,    // payload 0 or 1
  kInt,     // payload: int64
  kFloat,   // payload: bits of the double
  kText,    // payload: offset in the pickle, n: bytes
  kBytes,   // the same; tag 1: a bytearray
  kBig,     // the same: an integer over 64 bits, two's complement, little-endian
  kGlobal,  // n: the handler's id; payload: the machine's (arena top when it was pushed)
  kTyped,   // defined by the handler: tag, n, payload; never a position in the arena
  kOpaque,  // an object of a class that is not understood; tag, n, payload are the handler's; its contents are dropped
  // From here on: payload is a position in the arena.
  kTuple,   // n elements from there
  kList,    // chain of segments
  kDict,    // the same; key, value, key, value
  kSet,     // the same; tag 1: frozen
  kOpen,    // an object between NEWOBJ and BUILD; n: the handler's id of its class; tag: the machine's
  kObject,  // callable, arguments, state, chain of segments: kept for handlers that keep everything
};

struct Value {
  Kind kind = Kind::kUnset;
  uint16_t tag = 0;
  uint32_t n = 0;
  uint64_t payload = 0;

  bool in_arena() const { return kind >= Kind::kTuple; }
  int64_t integer() const { return static_cast<int64_t>(payload); }
};
static_assert(sizeof(Value) == 16 && std::is_trivially_copyable_v<Value>);

}  // namespace dcp
