#include "pickle/tokens.h"

#include <charconv>

#include "base/text.h"

namespace dcp {
std::string_view op_name(Op op) {
  switch (op) {
#define DCP_OPCODE(name, byte, form) \
  case Op::name: return #name;
#include "pickle/opcodes.def"
#undef DCP_OPCODE
  }
  return "";
}

Place at_offset(const Place& place, uint64_t offset) {
  Place moved = place;
  moved.offset = place.offset.value_or(0) + offset;
  return moved;
}

void TokenReader::fail_short(uint64_t header, uint64_t length) const {
  const Place place = at_offset(*place_, position_);
  if (position_ == size_) fail(ProblemId::pickle_no_stop, place);
  const auto op = static_cast<Op>(data_[position_]);
  fail(ProblemId::pickle_truncated, place, std::to_string(left() - header) + " bytes left",
       std::to_string(length) + " for " + std::string(op_name(op)));
}

void TokenReader::fail_opcode(OpForm form) const {
  const auto byte = std::to_integer<uint8_t>(data_[position_]);
  const Place place = at_offset(*place_, position_);
  if (form == OpForm::refused) fail(ProblemId::pickle_refused_opcode, place, std::string(op_name(static_cast<Op>(byte))));
  fail(ProblemId::pickle_unknown_opcode, place, "0x" + hex(byte, 2));
}

// Integers of up to 8 bytes become values; longer ones stay bytes, since nothing here computes with them.
void TokenReader::take_long(Token& t, uint64_t header, uint64_t length) {
  take_text(t, header, length);
  t.is_big = length > 8;
  if (t.is_big) return;
  uint64_t bits = 0;
  for (size_t i = 0; i < t.text.size(); ++i) bits |= uint64_t{static_cast<uint8_t>(t.text[i])} << (8 * i);
  const auto unused = static_cast<unsigned>(64 - 8 * length);
  t.integer = length == 0 ? 0 : static_cast<int64_t>(bits << unused) >> unused;
}

void TokenReader::take_lines(Token& t) {
  const std::string_view rest(reinterpret_cast<const char*>(argument()), static_cast<size_t>(left() - 1));
  const size_t first = rest.find('\n');
  const size_t second = first == rest.npos ? rest.npos : rest.find('\n', first + 1);
  if (second == rest.npos) fail(ProblemId::pickle_truncated, at_offset(*place_, position_), "no line end", "two lines for GLOBAL");
  t.text = rest.substr(0, first);
  t.name = rest.substr(first + 1, second - first - 1);
  t.end = position_ + 1 + second + 1;
}

void TokenReader::take_line(Token& t) {
  const std::string_view rest(reinterpret_cast<const char*>(argument()), static_cast<size_t>(left() - 1));
  const size_t end = rest.find('\n');
  if (end == rest.npos)
    fail(ProblemId::pickle_truncated, at_offset(*place_, position_), "no line end", "a line for " + std::string(op_name(t.op)));
  t.text = rest.substr(0, end);
  t.end = position_ + 1 + end + 1;
}

// Returns false where Python stops: an extension code, an out-of-band buffer that does not exist, a text without quotes.
bool TokenReader::take_pythons(Token& t) {
  switch (t.op) {
    case Op::INST: return take_lines(t), true;
    case Op::OBJ:
    case Op::READONLY_BUFFER: return true;
    case Op::INT:
    case Op::LONG:
    case Op::FLOAT:
    case Op::UNICODE:
    case Op::PERSID: return take_line(t), true;
    case Op::STRING: {
      take_line(t);
      const std::string_view line = t.text;
      if (line.size() < 2 || line.front() != line.back() || (line.front() != '\'' && line.front() != '"')) return false;
      t.text = line.substr(1, line.size() - 2);
      return true;
    }
    case Op::GET:
    case Op::PUT: {
      take_line(t);
      const auto [end, error] = std::from_chars(t.text.data(), t.text.data() + t.text.size(), t.integer);
      return error == std::errc{} && end == t.text.data() + t.text.size() && t.integer >= 0;
    }
    default: return false;
  }
}

void TokenReader::take_rare(Token& t, OpForm form) {
  switch (form) {
    case OpForm::f64be: t.real = std::bit_cast<double>(__builtin_bswap64(load_le<uint64_t>(argument()))); break;
    case OpForm::text4: take_text(t, 5, load_le<uint32_t>(argument())); break;
    case OpForm::text8: take_text(t, 9, load_le<uint64_t>(argument())); break;
    case OpForm::long1: take_long(t, 2, std::to_integer<uint8_t>(*argument())); break;
    case OpForm::text4s:
    case OpForm::long4: {
      const auto length = load_le<int32_t>(argument());
      if (length < 0) fail(ProblemId::pickle_negative_length, at_offset(*place_, position_), std::to_string(length));
      if (form == OpForm::long4) return take_long(t, 5, static_cast<uint64_t>(length));
      take_text(t, 5, static_cast<uint64_t>(length));
      break;
    }
    case OpForm::lines2: take_lines(t); break;
    case OpForm::frame: {
      // A frame is a hint for buffering: its contents are read like any other bytes, but it may not be longer than the rest.
      const auto length = load_le<uint64_t>(argument());
      if (length > left() - 9) {
        fail(ProblemId::pickle_frame, at_offset(*place_, position_), std::to_string(length) + " bytes",
             "at most " + std::to_string(left() - 9));
      }
      t.integer = static_cast<int64_t>(length);
      break;
    }
    default:
      if (opcodes_ == Opcodes::kOwn || !take_pythons(t)) fail_opcode(form);
  }
}

}  // namespace dcp
