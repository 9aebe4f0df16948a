// The bounds-checked reader of pickle opcodes: the one place that knows where an opcode's argument ends. Grammar: opcodes.def.
//
// Nothing is allocated: texts are views into the input. Every error is a pickle_* problem with the opcode's offset.
#pragma once

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

// Whether it pushes a text.
constexpr bool is_text(Op op) {
  switch (op) {
    case Op::STRING:
    case Op::BINSTRING:
    case Op::SHORT_BINSTRING:
    case Op::UNICODE:
    case Op::BINUNICODE:
    case Op::SHORT_BINUNICODE:
    case Op::BINUNICODE8: return true;
    default: return false;
  }
}

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

// Bytes that must be there: the opcode and the fixed part of its argument.
constexpr uint8_t fixed_bytes(OpForm form) {
  switch (form) {
    case OpForm::u8:
    case OpForm::text1:
    case OpForm::long1: return 2;
    case OpForm::u16: return 3;
    case OpForm::u32:
    case OpForm::i32:
    case OpForm::text4:
    case OpForm::text4s:
    case OpForm::long4: return 5;
    case OpForm::f64be:
    case OpForm::text8:
    case OpForm::frame: return 9;
    default: return 1;
  }
}

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

// `place` with `offset` bytes added to its offset: where an opcode lies in the file.
Place at_offset(const Place& place, uint64_t offset);

// kOwn: all that opcodes.def does not refuse. kPythons: also text forms, INST and OBJ, to find what Python would run. Tokens of text forms
// hold the line with its escapes (STRING's without its quotes); those of GET and PUT have a slot.
enum class Opcodes : uint8_t { kOwn, kPythons };

class TokenReader {
 public:
  // Both must outlive the reader. `place.offset`, if any, is where the pickle begins in the file.
  TokenReader(Bytes pickle, const Place& place, Opcodes opcodes = Opcodes::kOwn)
      : data_(pickle.data()), size_(pickle.size()), place_(&place), opcodes_(opcodes) {}

  uint64_t position() const { return position_; }
  uint64_t size() const { return size_; }
  void go_to(uint64_t position) { position_ = position; }  // at most the pickle's size
  // Reads one opcode, then calls fn.operator()<Op>(): one jump decodes and runs. Writes only the fields of `t` that the opcode's form
  // fills. Throws after the last byte: a pickle ends with STOP.
  template <class Fn>
  void visit(Token& t, Fn&& fn);
  void next(Token& t) {
    visit(t, []<Op> {});
  }
  // Skips to the next opcode whose argument is not of fixed size: in a large file that is one opcode in fifty. Calls on_get(slot) for memo
  // slots read on the way; stops where it returns false, and at slots that are filled by number.
  template <class OnGet>
  void skip_plain(OnGet&& on_get);

 private:
  static constexpr uint64_t kLongestFixed = 9;
  static constexpr bool is_plain(Op op, OpForm form) {
    const bool is_fixed =
        form == OpForm::nothing || form == OpForm::u8 || form == OpForm::u16 || form == OpForm::i32 || form == OpForm::f64be;
    return (is_fixed && op != Op::BINPUT && op != Op::STOP) || op == Op::LONG_BINGET;
  }

  const std::byte* argument() const { return data_ + position_ + 1; }
  uint64_t left() const { return size_ - position_; }
  void take_text(Token& t, uint64_t header, uint64_t length) {
    if (length > left() - header) fail_short(header, length);
    t.text = {reinterpret_cast<const char*>(data_ + position_ + header), static_cast<size_t>(length)};
    t.end = position_ + header + length;
  }
  void take_long(Token& t, uint64_t header, uint64_t length);
  void take_lines(Token& t);
  void take_line(Token& t);
  bool take_pythons(Token& t);
  template <OpForm form>
  void take(Token& t);
  void take_rare(Token& t, OpForm form);
  [[noreturn]] void fail_short(uint64_t header, uint64_t length) const;
  [[noreturn]] void fail_opcode(OpForm form) const;

  const std::byte* data_;
  uint64_t size_;
  uint64_t position_ = 0;
  const Place* place_;
  Opcodes opcodes_;
};

template <OpForm form>
inline void TokenReader::take(Token& t) {
  constexpr uint64_t kFixed = fixed_bytes(form);
  if (kFixed > 1 && kFixed > left()) fail_short(0, kFixed);
  t.offset = position_;
  t.end = position_ + kFixed;
  if constexpr (form == OpForm::nothing) {
  } else if constexpr (form == OpForm::u8) {
    t.integer = std::to_integer<uint8_t>(*argument());
  } else if constexpr (form == OpForm::u16) {
    t.integer = load_le<uint16_t>(argument());
  } else if constexpr (form == OpForm::u32) {
    t.integer = load_le<uint32_t>(argument());
  } else if constexpr (form == OpForm::i32) {
    t.integer = load_le<int32_t>(argument());
  } else if constexpr (form == OpForm::text1) {
    take_text(t, 2, std::to_integer<uint8_t>(*argument()));
  } else {
    take_rare(t, form);
  }
  position_ = t.end;
}

template <class Fn>
inline void TokenReader::visit(Token& t, Fn&& fn) {
  if (position_ == size_) fail_short(0, 1);
  t.op = static_cast<Op>(data_[position_]);
  switch (t.op) {
#define DCP_OPCODE(name, byte, form) \
  case Op::name: take<OpForm::form>(t); return fn.template operator()<Op::name>();
#include "pickle/opcodes.def"
#undef DCP_OPCODE
  }
  fail_opcode(OpForm::unknown);
}

template <class OnGet>
inline void TokenReader::skip_plain(OnGet&& on_get) {
  const std::byte* const data = data_;
  // Before this position, every argument of fixed size is inside the pickle.
  const uint64_t end = size_ < kLongestFixed ? 0 : size_ - kLongestFixed + 1;
  uint64_t at = position_;
  while (at < end) {
    switch (static_cast<Op>(data[at])) {
#define DCP_OPCODE(name, byte, form)                                                      \
  case Op::name:                                                                          \
    if (!is_plain(Op::name, OpForm::form)) break;                                         \
    if (Op::name == Op::BINGET && !on_get(std::to_integer<uint8_t>(data[at + 1]))) break; \
    if (Op::name == Op::LONG_BINGET && !on_get(load_le<uint32_t>(data + at + 1))) break;  \
    at += fixed_bytes(OpForm::form);                                                      \
    continue;
#include "pickle/opcodes.def"
#undef DCP_OPCODE
    }
    break;
  }
  position_ = at;
}

}  // namespace dcp
