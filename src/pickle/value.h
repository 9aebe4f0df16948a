// The values that a pickle's opcodes make, 16 bytes each; containers are positions in the machine's arena (machine.h).
#pragma once

#include <cstdint>
#include <cstdlib>
#include <memory>
#include <new>
#include <span>
#include <type_traits>

#include "base/heap.h"

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

// An array of values that grows and shrinks at its end: the machine's stack and its arena.
//
// A position that comes from a value (`[]`, `range`) is checked against the size in every build, and the process aborts if it lies outside,
// so no value can lead out of the array. `back` and `pop` are not checked: the machine calls need() before them.

class Cells {
 public:
  Cells() = default;
  Cells(Cells&&) = delete;
  ~Cells() { Heap::count(-static_cast<int64_t>(room_ * sizeof(Value))); }
  uint64_t size() const { return size_; }
  uint64_t room() const { return room_; }
  Value& operator[](uint64_t i) {
    if (i >= size_) std::abort();
    return data_[i];
  }
  const Value& operator[](uint64_t i) const {
    if (i >= size_) std::abort();
    return data_[i];
  }
  std::span<const Value> range(uint64_t first, uint64_t count) const {
    if (first > size_ || count > size_ - first) std::abort();
    return {data_.get() + first, count};
  }
  Value& back() { return data_[size_ - 1]; }
  Value pop() { return data_[--size_]; }
  void cut(uint64_t size) {  // only ever to a smaller size
    if (size > size_) std::abort();
    size_ = size;
  }
  bool has_room(uint64_t count) const { return room_ - size_ >= count; }
  void add(const Value& v) { data_[size_++] = v; }  // only where has_room()
  void add(std::span<const Value> values) {
    for (const Value& v : values) data_[size_++] = v;
  }
  void set_room(uint64_t room) {  // at least size()
    if (room > room_) Heap::check((room - room_) * sizeof(Value));
    void* grown = std::realloc(data_.get(), room * sizeof(Value));
    if (grown == nullptr) throw std::bad_alloc();
    Heap::count((static_cast<int64_t>(room) - static_cast<int64_t>(room_)) * static_cast<int64_t>(sizeof(Value)));
    static_cast<void>(data_.release());
    data_.reset(static_cast<Value*>(grown));
    room_ = room;
  }

 private:
  struct Free {
    void operator()(Value* p) const { std::free(p); }
  };
  std::unique_ptr<Value[], Free> data_;
  uint64_t size_ = 0;
  uint64_t room_ = 0;
};

}  // namespace dcp
