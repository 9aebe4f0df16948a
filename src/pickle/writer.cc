#include "pickle/writer.h"

#include <bit>

#include "base/checked.h"

namespace dcp {

template <class T>
void PickleWriter::number(T value) {
  std::byte bytes[sizeof value];
  store_le(bytes, value);
  out_->append(reinterpret_cast<const char*>(bytes), sizeof value);
}

void PickleWriter::begin() {
  op(Op::PROTO);
  number(static_cast<uint8_t>(protocol_));
}

void PickleWriter::integer(int64_t value) {
  if (value >= 0 && value <= 0xff) {
    op(Op::BININT1);
    number(static_cast<uint8_t>(value));
  } else if (value >= 0 && value <= 0xffff) {
    op(Op::BININT2);
    number(static_cast<uint16_t>(value));
  } else if (std::in_range<int32_t>(value)) {
    op(Op::BININT);
    number(static_cast<int32_t>(value));
  } else {
    // LONG1: the shortest two's complement whose top bit is the sign.
    const unsigned significant = 64 - static_cast<unsigned>(std::countl_zero(static_cast<uint64_t>(value < 0 ? ~value : value)));
    const auto bytes = static_cast<uint8_t>(significant / 8 + 1);
    op(Op::LONG1);
    number(bytes);
    for (unsigned i = 0; i < bytes; ++i) number(static_cast<uint8_t>(static_cast<uint64_t>(value) >> (8 * i)));
  }
}

void PickleWriter::real(double value) {
  op(Op::BINFLOAT);
  number(__builtin_bswap64(std::bit_cast<uint64_t>(value)));
}

void PickleWriter::text(std::string_view utf8) {
  if (protocol_ == PickleProtocol::k4 && utf8.size() <= 0xff) {
    op(Op::SHORT_BINUNICODE);
    number(static_cast<uint8_t>(utf8.size()));
  } else {
    op(Op::BINUNICODE);
    number(narrow<uint32_t>(utf8.size()));
  }
  raw(utf8);
}

void PickleWriter::global(std::string_view module, std::string_view name) {
  if (protocol_ == PickleProtocol::k4) {
    text(module);
    text(name);
    op(Op::STACK_GLOBAL);
    return;
  }
  op(Op::GLOBAL);
  raw(module);
  out_->push_back('\n');
  raw(name);
  out_->push_back('\n');
}

void PickleWriter::tuple(uint64_t count) {
  constexpr Op kTuples[] = {Op::EMPTY_TUPLE, Op::TUPLE1, Op::TUPLE2, Op::TUPLE3};
  if (count > 3) fail(ProblemId::internal, Place{}, "a tuple of " + std::to_string(count) + " without a mark");
  op(kTuples[count]);
}

uint64_t PickleWriter::put() {
  const uint64_t slot = next_slot_++;
  if (protocol_ == PickleProtocol::k4) op(Op::MEMOIZE);
  else put_at(slot);
  return slot;
}

void PickleWriter::put_at(uint64_t slot) {
  op(slot <= 0xff ? Op::BINPUT : Op::LONG_BINPUT);
  if (slot <= 0xff) number(static_cast<uint8_t>(slot));
  else number(narrow<uint32_t>(slot));
}

void PickleWriter::get(uint64_t slot) {
  op(slot <= 0xff ? Op::BINGET : Op::LONG_BINGET);
  if (slot <= 0xff) number(static_cast<uint8_t>(slot));
  else number(narrow<uint32_t>(slot));
}

}  // namespace dcp
