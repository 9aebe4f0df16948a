// The memo of a pickle: only slots that are read later are stored. A file of 10^6 chunks fills 16 million slots and reads 10 thousand.
#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <optional>
#include <vector>

#include "base/bytes.h"
#include "base/limits.h"
#include "base/problem.h"
#include "pickle/tokens.h"
#include "pickle/value.h"

namespace dcp {

class Memo {
 public:
  // Scans all opcodes up to STOP to find out which slots are read. Throws what TokenReader throws, over_limit for a slot number that no
  // pickler would use, and pickle_refused_opcode.
  Memo(Bytes pickle, const Place& place, const Limits& limits, Opcodes opcodes = Opcodes::kOwn);

  // Slot of the next MEMOIZE: as in CPython, the number of distinct slots filled so far.
  uint64_t size() const { return size_; }
  // True if the value is kept.
  bool memoize(const Value& v) {
    if (size_ >= next_read_) return memoize_read(v);
    ++size_;
    return false;
  }
  bool put(uint64_t slot, const Value& v) {
    fill(slot);
    const auto at = find(slot);
    if (at) kept_[*at] = v;
    return at.has_value();
  }
  // kUnset if the slot was never filled.
  Value get(uint64_t slot) const {
    const auto at = find(slot);
    return at ? kept_[*at] : Value{};
  }

 private:
  static constexpr uint64_t kGroup = 32;
  static constexpr uint64_t kNever = ~uint64_t{0};
  struct Group {          // of 32 slots
    uint32_t before = 0;  // slots below it that are read: fewer than limits.pickle_memo_slots
    uint32_t read = 0;    // bit per slot: read by some GET
  };
  // Without -mpopcnt, std::popcount is a call into libgcc.
  static constexpr auto kOnes = [] {
    std::array<uint8_t, 256> ones{};
    for (unsigned i = 0; i < 256; ++i) ones[i] = static_cast<uint8_t>(std::popcount(i));
    return ones;
  }();
  static uint32_t ones(uint32_t bits) {
    return uint32_t{kOnes[bits & 0xff]} + kOnes[(bits >> 8) & 0xff] + kOnes[(bits >> 16) & 0xff] + kOnes[bits >> 24];
  }

  // Where the value of a slot is kept; nullopt: nothing ever reads it.
  std::optional<uint64_t> find(uint64_t slot) const {
    if (slot / kGroup >= groups_.size()) return std::nullopt;
    const Group& group = groups_[slot / kGroup];
    const uint32_t bit = uint32_t{1} << (slot % kGroup);
    if ((group.read & bit) == 0) return std::nullopt;
    return group.before + uint64_t{ones(group.read & (bit - 1))};
  }
  bool memoize_read(const Value& v);
  void fill(uint64_t slot);
  void find_reads(TokenReader reader, const Place& place, uint64_t cap);
  uint64_t first_read(uint64_t from) const;  // kNever: none

  std::vector<Group> groups_;
  std::vector<Value> kept_;
  // Explicit PUTs may leave gaps: from the first one that does, `filled_` says which slots count in size_.
  std::vector<uint64_t> filled_;
  bool sparse_ = false;
  uint64_t size_ = 0;
  uint64_t next_read_ = kNever;  // no slot in [size_, next_read_) is ever read; 0 when sparse
};

}  // namespace dcp
