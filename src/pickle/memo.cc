#include "pickle/memo.h"

#include <algorithm>
#include <string>

namespace dcp {

Memo::Memo(Bytes pickle, const Place& place, const Limits& limits, Opcodes opcodes) {
  // Picklers number slots 0, 1, 2, ... and each takes an opcode, so a number above the count of bytes is bogus, and would cost memory.
  const TokenReader reader(pickle, place, opcodes);
  find_reads(reader, place, std::min<uint64_t>(limits.pickle_memo_slots, std::max<uint64_t>(pickle.size(), 256)));
  uint32_t count = 0;
  for (Group& group : groups_) {
    group.before = count;
    count += ones(group.read);
  }
  kept_.resize(count);
  next_read_ = first_read(0);
}

void Memo::find_reads(TokenReader reader, const Place& place, uint64_t cap) {
  uint64_t room = 0;  // in slots
  const auto mark = [&](uint64_t slot) {
    if (slot >= room) return false;
    Group& group = groups_[slot / kGroup];
    group.read |= uint32_t{1} << (slot % kGroup);
    return true;
  };
  Token t;
  do {
    reader.skip_plain(mark);
    reader.next(t);
    switch (t.op) {
      case Op::GET:
      case Op::BINGET:
      case Op::LONG_BINGET:
      case Op::PUT:
      case Op::BINPUT:
      case Op::LONG_BINPUT: {
        const auto slot = static_cast<uint64_t>(t.integer);
        if (slot >= cap)
          fail(ProblemId::over_limit, at_offset(place, t.offset), "memo slot " + std::to_string(slot), "below " + std::to_string(cap));
        const bool is_put = t.op == Op::PUT || t.op == Op::BINPUT || t.op == Op::LONG_BINPUT;
        if (!is_put && !mark(slot)) {
          room = std::min(cap, 2 * (slot + 128));
          groups_.resize((room + kGroup - 1) / kGroup);
          mark(slot);
        }
        break;
      }
      default: break;
    }
  } while (t.op != Op::STOP);
  while (!groups_.empty() && groups_.back().read == 0) groups_.pop_back();
  groups_.shrink_to_fit();  // it grew by doubling, which left room
}

uint64_t Memo::first_read(uint64_t from) const {
  for (uint64_t slot = from; slot / kGroup < groups_.size(); slot = (slot / kGroup + 1) * kGroup) {
    const uint32_t above = groups_[slot / kGroup].read >> (slot % kGroup);
    if (above != 0) return slot + static_cast<uint64_t>(std::countr_zero(above));
  }
  return kNever;
}

bool Memo::memoize_read(const Value& v) {
  const uint64_t slot = size_;
  const bool kept = put(slot, v);
  if (!sparse_) next_read_ = first_read(size_);
  return kept;
}

void Memo::fill(uint64_t slot) {
  if (!sparse_) {
    if (slot < size_) return;
    if (slot == size_) {
      ++size_;
      return;
    }
    sparse_ = true;
    next_read_ = 0;
    filled_.assign(size_ / 64 + 1, ~uint64_t{0});
    filled_.back() = (uint64_t{1} << (size_ % 64)) - 1;
  }
  if (slot / 64 >= filled_.size()) filled_.resize(slot / 64 + 1);
  uint64_t& word = filled_[slot / 64];
  const uint64_t bit = uint64_t{1} << (slot % 64);
  if ((word & bit) == 0) ++size_;
  word |= bit;
}

}  // namespace dcp
