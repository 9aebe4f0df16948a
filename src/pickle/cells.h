// An array of values that grows and shrinks at its end: the machine's stack and its arena.
//
// A position that comes from a value (`[]`, `range`) is checked against the size in every build, and the process aborts if it lies outside,
// so no value can lead out of the array. `back` and `pop` are not checked: the machine calls need() before them.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <memory>
#include <new>
#include <span>

#include "base/heap.h"
#include "pickle/value.h"

namespace dcp {

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
