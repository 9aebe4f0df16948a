// Pickles of protocols 0 and 1 in binary opcodes. What CPython makes of the same lines was tried with CPython 3.11.
#include "pickle/text_opcodes.h"

#include <bit>
#include <catch2/catch_test_macros.hpp>
#include <cmath>
#include <string>

#include "base/error_line.h"
#include "pickle/graph.h"
#include "pickle/opcodes.h"

namespace dcp {
namespace {

using namespace test;

std::string text_repr(const std::string& pickle) {
  const Place place{.path = "x"};
  const auto binary = binary_form(as_bytes(pickle), place, {});
  if (!binary) return "as it is";
  const PickleGraph graph(*binary, place, {});
  return graph.repr(graph.root());
}

std::string text_refusal(const std::string& pickle) {
  return error_line([&] { text_repr(pickle); });
}

TEST_CASE("a pickle that says its protocol is left as it is") {
  CHECK(text_repr(proto(2) + num(1) + kStop) == "as it is");
  CHECK(text_repr("") == "as it is");
}

TEST_CASE("numbers in lines") {
  CHECK(text_repr("I7\n.") == "7");
  CHECK(text_repr("I-7\n.") == "-7");
  CHECK(text_repr("I00\n.") == "False");
  CHECK(text_repr("I01\n.") == "True");
  CHECK(text_repr("I1\n.") == "1");
  CHECK(text_repr("I0x1F\n.") == "31");
  CHECK(text_repr("L65536L\n.") == "65536");
  CHECK(text_repr("L01\n.") == "1");
  CHECK(text_repr("L-9223372036854775808L\n.") == "-9223372036854775808");
  CHECK(text_repr("I9223372036854775807\n.") == "9223372036854775807");
  CHECK(text_repr("F0.1\n.") == "0.1");
  CHECK(text_repr("F-1e300\n.") == "-1e+300");
  CHECK(text_repr("Finf\n.") == "inf");
  CHECK(text_repr("F-inf\n.") == "-inf");
  CHECK(text_repr("Fnan\n.") == "nan");
  CHECK(text_refusal("L9223372036854775808L\n.") == "x @ 0x0: a pickle opcode is applied to a value that it does not accept (got "
                                                    "'9223372036854775808L', expected an integer of up to 64 bits)");
  CHECK(text_refusal("I\n.") ==
        "x @ 0x0: a pickle opcode is applied to a value that it does not accept (got '', expected an integer of up to 64 bits)");
  CHECK(text_refusal("Fa\n.") == "x @ 0x0: a pickle opcode is applied to a value that it does not accept (got 'a', expected a float)");
  CHECK(text_refusal("I7") == "x @ 0x0: the pickle ends inside an opcode (got no line end, expected a line for INT)");
}

TEST_CASE("texts in lines, with their escapes") {
  CHECK(text_repr("S'a\"b'\n.") == "'a\"b'");
  CHECK(text_repr("S\"a'b\"\n.") == "'a'b'");
  CHECK(text_repr(R"(S'\x41\102\\\'\q')"
                  "\n.") == R"('AB\'\q')");
  CHECK(text_repr("V\\u00e9\\U0001f600\xe9\\\\u0041\n.") == "'\xc3\xa9\xf0\x9f\x98\x80\xc3\xa9\\\\u0041'");
  CHECK(text_refusal("S'a\n.").ends_with("expected a text in quotes)"));
  CHECK(text_refusal("Sa\n.").ends_with("expected a text in quotes)"));
  CHECK(text_refusal("S'\\xe9'\n.").ends_with("expected ASCII)"));
  CHECK(text_refusal("S'\\x4'\n.").ends_with("expected two digits after \\x)"));
  CHECK(text_refusal("V\\u12\n.").ends_with("expected a code point)"));
}

TEST_CASE("memo slots in lines, and binary opcodes between them") {
  CHECK(text_repr("(lp0\nI1\naI2\nag0\n0.") == "[1, 2]");
  CHECK(text_repr("(dp0\nVa\np1\nI1\nsg1\n0.") == "{'a': 1}");
  CHECK(text_repr("]q\x05(K\x01I2\neg5\n0.") == "[1, 2]");
  CHECK(text_repr("cposix\nsystem\np0\n(Vtrue\np1\ntp2\nRp3\n.") == "posix.system('true')");
  CHECK(text_refusal("g7\n.").starts_with("x @ 0x0: a pickle memo slot is read"));
  CHECK(text_refusal("]p-1\n.").ends_with("expected a memo slot)"));
}

TEST_CASE("what only Python 2 wrote, and ids in lines, stay refused") {
  for (const char* pickle : {"(ia\nb\n.", "(ca\nb\no.", "Pa\n."})
    CHECK(text_refusal(pickle).find("a pickle opcode that torch does not write by default") != std::string::npos);
}

}  // namespace
}  // namespace dcp
