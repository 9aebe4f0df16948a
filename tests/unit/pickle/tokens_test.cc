#include "pickle/tokens.h"

#include <catch2/catch_test_macros.hpp>
#include <string>

#include "base/error_line.h"
#include "pickle/opcodes.h"

namespace dcp {
namespace {

using namespace test;

Token read_one(const std::string& pickle) {
  const Place place{.path = "p"};
  TokenReader reader(as_bytes(pickle), place);
  Token t;
  reader.next(t);
  return t;
}

std::string refusal(const std::string& pickle) {
  return error_line([&] { read_one(pickle); });
}

TEST_CASE("numbers") {
  CHECK(read_one("K\xff").integer == 255);
  CHECK(read_one(op(Op::BININT2) + le(uint16_t{65535})).integer == 65535);
  CHECK(read_one(op(Op::BININT) + le(int32_t{-2})).integer == -2);
  CHECK(read_one(op(Op::LONG1) + std::string("\0", 1)).integer == 0);
  CHECK(read_one(op(Op::LONG1) + "\x01\xff").integer == -1);
  CHECK(read_one(op(Op::LONG1) + "\x08" + le(INT64_MIN)).integer == INT64_MIN);
  CHECK(read_one(op(Op::LONG4) + le(int32_t{2}) + le(int16_t{-300})).integer == -300);
  CHECK(read_one("G" + std::string("\x3f\xb9\x99\x99\x99\x99\x99\x9a", 8)).real == 0.1);
  const std::string nine = std::string(8, '\0') + "\x01";
  const Token big = [&] {
    static const std::string pickle = op(Op::LONG1) + "\x09" + nine;
    return read_one(pickle);
  }();
  CHECK(big.is_big);
  CHECK(big.text == nine);
}

TEST_CASE("texts end where their length says") {
  for (const std::string& pickle :
       {short_text("abc") + "N", text("abc") + "N", op(Op::BINUNICODE8) + le(uint64_t{3}) + "abcN", "U\x03" + std::string("abcN"),
        "T" + le(int32_t{3}) + "abcN", "C\x03" + std::string("abcN"), "B" + le(uint32_t{3}) + "abcN",
        op(Op::BINBYTES8) + le(uint64_t{3}) + "abcN", op(Op::BYTEARRAY8) + le(uint64_t{3}) + "abcN"}) {
    const Token t = read_one(pickle);
    CHECK(t.text == "abc");
    CHECK(t.end == pickle.size() - 1);
  }
  const std::string pickle = global("torch", "Size") + "N";
  const Token t = read_one(pickle);
  CHECK(t.text == "torch");
  CHECK(t.name == "Size");
  CHECK(t.end == pickle.size() - 1);
}

TEST_CASE("an argument that is cut short, at every length") {
  for (const std::string& whole : {num(1), op(Op::BININT2) + "ab", op(Op::BININT) + "abcd", "G" + std::string(8, 'x'), short_text("abc"),
                                   text("abc"), op(Op::BINUNICODE8) + le(uint64_t{2}) + "ab", "T" + le(int32_t{2}) + "ab", global("m", "n"),
                                   op(Op::LONG1) + "\x02" + "ab", op(Op::LONG4) + le(int32_t{2}) + "ab", op(Op::FRAME) + le(uint64_t{0}),
                                   op(Op::BINGET) + "a", op(Op::LONG_BINPUT) + "abcd", proto(2)}) {
    CHECK(refusal(whole) == "no error");
    for (size_t n = 1; n < whole.size(); ++n) {
      const std::string cut = whole.substr(0, n);
      CHECK(error_id([&] { read_one(cut); }) == "pickle_truncated");
    }
  }
}

TEST_CASE("messages") {
  CHECK(refusal("") == "p @ 0x0: the pickle ends before its STOP");
  CHECK(refusal(short_text("abc").substr(0, 3)) ==
        "p @ 0x0: the pickle ends inside an opcode (got 1 bytes left, expected 3 for SHORT_BINUNICODE)");
  CHECK(refusal("J12") == "p @ 0x0: the pickle ends inside an opcode (got 3 bytes left, expected 5 for BININT)");
  CHECK(refusal("cmodule\nname") == "p @ 0x0: the pickle ends inside an opcode (got no line end, expected two lines for GLOBAL)");
  CHECK(refusal("\xff") == "p @ 0x0: not a pickle opcode: 0xff");
  CHECK(refusal("I1\n") == "p @ 0x0: a pickle opcode that torch does not write by default: INT");
  CHECK(refusal("\x97") == "p @ 0x0: a pickle opcode that torch does not write by default: NEXT_BUFFER");
  CHECK(refusal("\x82\x01") == "p @ 0x0: a pickle opcode that torch does not write by default: EXT1");
  CHECK(refusal(op(Op::LONG4) + le(int32_t{-1})) == "p @ 0x0: a length in the pickle is negative: -1");
  CHECK(refusal("T" + le(int32_t{INT32_MIN})) == "p @ 0x0: a length in the pickle is negative: -2147483648");
  CHECK(refusal(op(Op::FRAME) + le(uint64_t{2}) + "N") ==
        "p @ 0x0: a pickle frame is longer than the rest of the pickle (got 2 bytes, expected at most 1)");
}

TEST_CASE("lengths that would overflow") {
  CHECK(refusal(op(Op::BINUNICODE8) + le(~uint64_t{0}) + "x") ==
        "p @ 0x0: the pickle ends inside an opcode (got 1 bytes left, expected 18446744073709551615 for BINUNICODE8)");
  CHECK(error_id([] { read_one(op(Op::LONG4) + le(INT32_MAX) + "x"); }) == "pickle_truncated");
  CHECK(error_id([] { read_one(op(Op::BYTEARRAY8) + le(~uint64_t{0} - 8)); }) == "pickle_truncated");
}

TEST_CASE("the place counts from where the pickle lies in its file") {
  const Place place{.path = "f", .offset = 0x100};
  const std::string pickle = "NN\xff";
  TokenReader reader(as_bytes(pickle), place);
  Token t;
  reader.next(t);
  reader.next(t);
  CHECK(error_line([&] { reader.next(t); }) == "f @ 0x102: not a pickle opcode: 0xff");
}

}  // namespace
}  // namespace dcp
