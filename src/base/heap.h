// What all allocations of the program may take: the net under --max-memory. Whoever can tell what it needs says so first (Limits,
// fit_workers); what nobody has thought of ends here, as an exception at the allocation that would be too much.
//
// The program's operator new counts (cmd/heap.cc), and so does who allocates otherwise (pickle/cells.h). A program with another operator
// new, such as a test's, is not bounded.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <new>

namespace dcp {

class HeapCapReached : public std::bad_alloc {
 public:
  const char* what() const noexcept override { return "the memory cap is reached"; }
};

class Heap {
 public:
  static uint64_t used() { return static_cast<uint64_t>(std::max<int64_t>(used_.load(std::memory_order_relaxed), 0)); }
  static void set_cap(uint64_t bytes) {
    cap_.store(static_cast<int64_t>(std::min<uint64_t>(bytes, INT64_MAX / 2)), std::memory_order_relaxed);
  }
  // Throws HeapCapReached. What is small is let through a little longer: an error must be told.
  static void check(uint64_t bytes) {
    constexpr uint64_t kSmall = 64 << 10;
    constexpr int64_t kSlack = 2 << 20;
    const int64_t max = cap_.load(std::memory_order_relaxed) + (bytes > kSmall ? 0 : kSlack);
    if (used_.load(std::memory_order_relaxed) > max - static_cast<int64_t>(std::min<uint64_t>(bytes, INT64_MAX / 4)))
      throw HeapCapReached();
  }
  // Bytes taken, or given back. By thread in lots of kLot: one counter for all would be a place that all wait for.
  static void count(int64_t bytes) noexcept {
    balance_ += bytes;
    if (balance_ > kLot || balance_ < -kLot) {
      used_.fetch_add(balance_, std::memory_order_relaxed);
      balance_ = 0;
    }
  }

 private:
  static constexpr int64_t kLot = 64 << 10;
  static inline std::atomic<int64_t> used_{0};
  static inline std::atomic<int64_t> cap_{INT64_MAX / 2};
  static inline thread_local int64_t balance_ = 0;
};

}  // namespace dcp
