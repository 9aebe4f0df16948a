// The memo of a pickle: only slots that are ever read are stored. A file of 10^6 chunks fills 16 million slots and reads 10 thousand.
#pragma once

#include <bit>
#include <cstdint>
#include <vector>

#include "base/bytes.h"
#include "base/limits.h"
#include "base/problem.h"
#include "pickle/tokens.h"
#include "pickle/value.h"

namespace dcp {

class Memo {
 public:
  // Reads all opcodes up to STOP once, to learn which slots are read. Throws what TokenReader throws, over_limit for a slot number that
  // no pickler would give, and pickle_refused_opcode.
  Memo(Bytes pickle, const Place& place, const Limits& limits);

  // Slot of the next MEMOIZE: as in CPython, the number of distinct slots filled so far.
  uint64_t size() const { return size_; }
  // True if the value is kept.
  bool memoize(const Value& v) {
    const uint64_t slot = size_;
    if (sparse_)
      fill(slot);
    else
      ++size_;
    return is_read(slot) && keep(slot, v);
  }
  bool put(uint64_t slot, const Value& v) {
    fill(slot);
    return is_read(slot) && keep(slot, v);
  }
  // kUnset if the slot was never filled.
  Value get(uint64_t slot) const { return is_read(slot) ? kept_[rank(slot)] : Value{}; }

 private:
  bool is_read(uint64_t slot) const { return slot / 64 < read_.size() && (read_[slot / 64] >> (slot % 64) & 1) != 0; }
  uint64_t rank(uint64_t slot) const {
    const uint64_t below = read_[slot / 64] & ((uint64_t{1} << (slot % 64)) - 1);
    return ranks_[slot / 64] + static_cast<uint64_t>(std::popcount(below));
  }
  bool keep(uint64_t slot, const Value& v) {
    kept_[rank(slot)] = v;
    return true;
  }
  void fill(uint64_t slot);

  std::vector<uint64_t> read_;   // bit per slot: read by some GET
  std::vector<uint64_t> ranks_;  // bits set in the words before
  std::vector<Value> kept_;
  // Explicit PUTs may leave gaps: from the first one that does, `filled_` says which slots count in size_.
  std::vector<uint64_t> filled_;
  bool sparse_ = false;
  uint64_t size_ = 0;
};

}  // namespace dcp
