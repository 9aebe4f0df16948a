// A cap on all allocations of the program: the safety net under the memory cap. Code that can predict its needs checks them up front (Limits,
// fit_workers); anything unforeseen ends here, as an exception from the allocation that would exceed the cap.
//
// The program's operator new counts (cmd/heap.cc), and so does code that allocates in other ways (pickle/value.h). A program with another
// operator new, such as a test, is not bounded, nor is one that has loaded ours as a library.
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
  // From here on operator new counts: the process is the program's.
  static void take_process() { is_taken_ = true; }
  static bool is_taken() { return is_taken_; }

  static uint64_t used() { return static_cast<uint64_t>(std::max<int64_t>(used_.load(std::memory_order_relaxed), 0)); }
  static void set_cap(uint64_t bytes) {
    cap_.store(static_cast<int64_t>(std::min<uint64_t>(bytes, INT64_MAX / 2)), std::memory_order_relaxed);
  }
  // Throws HeapCapReached. Small allocations may go a little beyond the cap, so that the error can be reported.
  static void check(uint64_t bytes) {
    constexpr uint64_t kSmall = 64 << 10;
    constexpr int64_t kSlack = 2 << 20;
    const int64_t max = cap_.load(std::memory_order_relaxed) + (bytes > kSmall ? 0 : kSlack);
    if (used_.load(std::memory_order_relaxed) > max - static_cast<int64_t>(std::min<uint64_t>(bytes, INT64_MAX / 4)))
      throw HeapCapReached();
  }
  // Counts bytes taken or given back. Each thread counts by itself until it has kLot bytes: a single shared counter would be contended.
  static void count(int64_t bytes) noexcept {
    balance_ += bytes;
    if (balance_ > kLot || balance_ < -kLot) {
      used_.fetch_add(balance_, std::memory_order_relaxed);
      balance_ = 0;
    }
  }

 private:
  static constexpr int64_t kLot = 64 << 10;
  static inline bool is_taken_ = false;
  static inline std::atomic<int64_t> used_{0};
  static inline std::atomic<int64_t> cap_{INT64_MAX / 2};
  static inline thread_local int64_t balance_ = 0;
};

}  // namespace dcp
