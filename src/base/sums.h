// Order-free sums: a CRC of a long run of bytes joined from its pieces in any order, by any thread or rank.
//
// A CRC without its initial value and final inversion ("raw") is linear over GF(2): the raw CRC of a run is the XOR over its pieces of
// `raw(piece) * x^(8 * bytes after the piece)`. The constants are put back once the whole length is known. So a sum is complete once all
// bytes are added, in any order and by any thread.
//
// CRC-32: the zip one (reflected 0xEDB88320). CRC-64: CRC-64/XZ (reflected 0xC96C5795D7870F42), for content digests.
#pragma once

#include <atomic>
#include <cstdint>

#include "base/bytes.h"
#include "base/problem.h"

namespace dcp {

uint32_t crc32_raw(Bytes bytes);                            // initial value 0, no final inversion
uint32_t crc32_shift(uint32_t raw, uint64_t bytes_after);   // raw CRC of the same bytes followed by that many zero bytes
uint32_t crc32_finish(uint32_t raw, uint64_t total_bytes);  // the CRC-32 as zip stores it
uint64_t crc64_raw(Bytes bytes);
uint64_t crc64_shift(uint64_t raw, uint64_t bytes_after);
uint64_t crc64_finish(uint64_t raw, uint64_t total_bytes);

// The problem for a record whose CRC-32 is not the one that its writer stored.
Problem crc_problem(Place place, uint64_t bytes, uint32_t got, uint32_t expected);

inline uint32_t crc32(Bytes bytes) { return crc32_finish(crc32_raw(bytes), bytes.size()); }

// The sum of one run of bytes, with a register of type W. Any thread may call add(). Call value() and added() once all have added: the last
// one is the caller for whom add() returns the run's total.
template <class W, W (*kShift)(W, uint64_t), W (*kFinish)(W, uint64_t)>
class CrcSum {
 public:
  // Returns the bytes added so far.
  uint64_t add(W raw, uint64_t bytes, uint64_t bytes_after) {
    raw_.fetch_xor(kShift(raw, bytes_after), std::memory_order_relaxed);
    return added_.fetch_add(bytes, std::memory_order_acq_rel) + bytes;
  }
  uint64_t added() const { return added_.load(std::memory_order_relaxed); }
  W value(uint64_t total_bytes) const { return kFinish(raw_.load(std::memory_order_relaxed), total_bytes); }

 private:
  std::atomic<W> raw_{0};
  std::atomic<uint64_t> added_{0};
};
using Crc32Sum = CrcSum<uint32_t, crc32_shift, crc32_finish>;
using Crc64Sum = CrcSum<uint64_t, crc64_shift, crc64_finish>;

}  // namespace dcp
