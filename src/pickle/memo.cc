#include "pickle/memo.h"

#include <algorithm>
#include <string>

namespace dcp {
namespace {

void set_bit(std::vector<uint64_t>& bits, uint64_t slot) {
  if (slot / 64 >= bits.size()) bits.resize(slot / 64 + 1);
  bits[slot / 64] |= uint64_t{1} << (slot % 64);
}

}  // namespace

Memo::Memo(Bytes pickle, const Place& place, const Limits& limits) {
  // Picklers number slots 0, 1, 2, ... and each takes an opcode: a number above the count of bytes is made up, and would cost memory.
  const uint64_t cap = std::min<uint64_t>(limits.pickle_memo_slots, std::max<uint64_t>(pickle.size(), 256));
  TokenReader reader(pickle, place);
  Token t;
  do {
    reader.skip_plain();
    reader.next(t);
    switch (t.op) {
      case Op::BINGET:
      case Op::LONG_BINGET:
      case Op::BINPUT:
      case Op::LONG_BINPUT: {
        const auto slot = static_cast<uint64_t>(t.integer);
        if (slot >= cap)
          fail(ProblemId::over_limit, at_offset(place, t.offset), "memo slot " + std::to_string(slot), "below " + std::to_string(cap));
        if (t.op == Op::BINGET || t.op == Op::LONG_BINGET) set_bit(read_, slot);
        break;
      }
      default:
        break;
    }
  } while (t.op != Op::STOP);

  ranks_.reserve(read_.size());
  uint64_t count = 0;
  for (const uint64_t word : read_) {
    ranks_.push_back(count);
    count += static_cast<uint64_t>(std::popcount(word));
  }
  kept_.resize(count);
}

void Memo::fill(uint64_t slot) {
  if (!sparse_) {
    if (slot < size_) return;
    if (slot == size_) {
      ++size_;
      return;
    }
    sparse_ = true;
    filled_.assign(size_ / 64 + 1, ~uint64_t{0});
    filled_.back() = (uint64_t{1} << (size_ % 64)) - 1;
  }
  if (slot / 64 < filled_.size() && (filled_[slot / 64] >> (slot % 64) & 1) != 0) return;
  ++size_;
  set_bit(filled_, slot);
}

}  // namespace dcp
