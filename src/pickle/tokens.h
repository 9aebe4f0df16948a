// The bounds-checked reader of pickle opcodes: the one place that knows where an opcode's argument ends. Grammar: opcodes.def.
//
// Nothing is allocated: texts are views into the input. Every error is a pickle_* problem with the opcode's offset.
#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/bytes.h"
#include "base/problem.h"

namespace dcp {

enum class Op : uint8_t {
#define DCP_OPCODE(name, byte, form) name = byte,
#include "pickle/opcodes.def"
#undef DCP_OPCODE
};
std::string_view op_name(Op op);  // "SHORT_BINUNICODE"

enum class OpForm : uint8_t {
  unknown,
  nothing,
  u8,
  u16,
  u32,
  i32,
  f64be,
  text1,
  text4,
  text4s,
  text8,
  line,
  lines2,
  long1,
  long4,
  frame,
  refused
};

struct Token {
  Op op{};
  bool is_big = false;    // LONG1, LONG4: more than 8 bytes, which are in `text` (two's complement, little-endian)
  uint64_t offset = 0;    // of the opcode, in the input
  uint64_t end = 0;       // after its argument
  std::string_view text;  // strings, bytes; the module of GLOBAL
  std::string_view name;  // the name of GLOBAL
  int64_t integer = 0;    // integers, memo slots, protocol, frame length
  double real = 0;
};

// `place` with its offset moved on by `offset` bytes: where in the file an opcode lies.
Place at_offset(const Place& place, uint64_t offset);

class TokenReader {
 public:
  // Both must outlive the reader. `place.offset`, if any, is where the pickle begins in the file.
  TokenReader(Bytes pickle, const Place& place) : data_(pickle.data()), size_(pickle.size()), place_(&place) {}

  uint64_t position() const { return position_; }
  // Reads one opcode. Only the fields that its form fills are written: the rest of `t` is what it was. Throws after the last byte:
  // a pickle ends with STOP.
  void next(Token& t);
  // Moves over opcodes whose argument has a fixed size and is no memo slot: what is left to look at is a third of a large file.
  // The two common sizes are compared for, not added from the table: a predicted branch does not wait for the load.
  void skip_plain() {
    uint64_t at = position_;
    while (at + kLongestFixed <= size_) {
      const uint8_t bytes = kPlainBytes[std::to_integer<uint8_t>(data_[at])];
      if (bytes == 1) {
        at += 1;
      } else if (bytes == 2) {
        at += 2;
      } else if (bytes != 0) {
        at += bytes;
      } else {
        break;
      }
    }
    position_ = at;
  }

 private:
  struct Facts {
    OpForm form;
    uint8_t fixed;  // bytes that must be there: the opcode and the fixed part of its argument
  };
  static const std::array<Facts, 256> kFacts;
  static constexpr uint64_t kLongestFixed = 9;
  // Bytes of an opcode with its argument; 0: of variable size, unknown, the end of the pickle, or naming a memo slot.
  static const std::array<uint8_t, 256> kPlainBytes;

  const std::byte* argument() const { return data_ + position_ + 1; }
  uint64_t left() const { return size_ - position_; }
  void take_text(Token& t, uint64_t header, uint64_t length) {
    if (length > left() - header) fail_short(header, length);
    t.text = {reinterpret_cast<const char*>(data_ + position_ + header), static_cast<size_t>(length)};
    t.end = position_ + header + length;
  }
  void take_long(Token& t, uint64_t header, uint64_t length);
  void take_lines(Token& t);
  void take_rare(Token& t, OpForm form);
  [[noreturn]] void fail_short(uint64_t header, uint64_t length) const;
  [[noreturn]] void fail_opcode(OpForm form) const;

  const std::byte* data_;
  uint64_t size_;
  uint64_t position_ = 0;
  const Place* place_;
};

inline void TokenReader::next(Token& t) {
  if (position_ == size_) fail_short(0, 1);
  const auto byte = std::to_integer<uint8_t>(data_[position_]);
  const Facts facts = kFacts[byte];
  if (facts.fixed > left()) fail_short(0, facts.fixed);
  t.op = static_cast<Op>(byte);
  t.offset = position_;
  t.end = position_ + facts.fixed;
  switch (facts.form) {
    case OpForm::nothing:
      break;
    case OpForm::u8:
      t.integer = std::to_integer<uint8_t>(*argument());
      break;
    case OpForm::u16:
      t.integer = load_le<uint16_t>(argument());
      break;
    case OpForm::u32:
      t.integer = load_le<uint32_t>(argument());
      break;
    case OpForm::i32:
      t.integer = load_le<int32_t>(argument());
      break;
    case OpForm::text1:
      take_text(t, 2, std::to_integer<uint8_t>(*argument()));
      break;
    default:
      take_rare(t, facts.form);
  }
  position_ = t.end;
}

}  // namespace dcp
