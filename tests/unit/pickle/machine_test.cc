#include "pickle/machine.h"

#include <catch2/catch_test_macros.hpp>
#include <string>

#include "base/error_line.h"
#include "pickle/graph.h"
#include "pickle/opcodes.h"

namespace dcp {
namespace {

using namespace test;

std::string repr(const std::string& pickle, const Limits& limits = {}) {
  const PickleGraph graph(as_bytes(pickle), Place{.path = "p"}, limits);
  return graph.repr(graph.root(), {.depth = 20, .length = 2000, .text = 100});
}
std::string error_of(const std::string& pickle, const Limits& limits = {}) {
  return error_line([&] { repr(pickle, limits); });
}

TEST_CASE("values") {
  CHECK(repr("N.") == "None");
  CHECK(repr("\x88.") == "True");
  CHECK(repr("\x89.") == "False");
  CHECK(repr(num(7) + kStop) == "7");
  CHECK(repr(text("a\nb") + kStop) == "'a\\x0ab'");
  CHECK(repr("C\x02xy.") == "<2 bytes>");
  CHECK(repr(op(Op::LONG1) + "\x09" + "123456789.") == "1055515178193424429617");
  CHECK(repr(op(Op::LONG1) + std::string("\x0b") + std::string(9, '\0') + std::string("\x01\0.", 3)) == "4722366482869645213696");
  CHECK(repr(op(Op::LONG1) + std::string("\x09") + std::string(8, '\0') + "\x80.") == "-2361183241434822606848");
  CHECK(repr(op(Op::LONG1) + std::string("\x0a") + std::string(10, '\xff') + ".") == "-1");
  CHECK(repr(op(Op::LONG1) + "\x80" + std::string(127, '\xff') + "\x7f.").size() == 308);
  CHECK(repr(op(Op::LONG1) + "\x81" + std::string(129, '\x7f') + ".") == "<an integer of 129 bytes>");
  CHECK(repr(proto(5) + op(Op::FRAME) + le(uint64_t{1}) + kNone + kStop) == "None");
  CHECK(repr(kNone + kStop + "junk") == "None");
}

TEST_CASE("containers") {
  CHECK(repr(kEmptyTuple + kStop) == "()");
  CHECK(repr(num(1) + op(Op::TUPLE1) + kStop) == "(1,)");
  CHECK(repr(num(1) + num(2) + op(Op::TUPLE2) + kStop) == "(1, 2)");
  CHECK(repr(num(1) + num(2) + num(3) + op(Op::TUPLE3) + kStop) == "(1, 2, 3)");
  CHECK(repr(kMark + num(1) + num(2) + num(3) + num(4) + kTuple + kStop) == "(1, 2, 3, 4)");
  CHECK(repr(kList + num(1) + kAppend + kMark + num(2) + num(3) + kAppends + kMark + kAppends + num(4) + kAppend + kStop) ==
        "[1, 2, 3, 4]");
  CHECK(repr(kDict + num(1) + num(2) + kSetItem + kMark + num(3) + num(4) + kSetItems + kStop) == "{1: 2, 3: 4}");
  CHECK(repr(op(Op::EMPTY_SET) + kMark + num(1) + op(Op::ADDITEMS) + kStop) == "{1}");
  CHECK(repr(kMark + num(1) + op(Op::FROZENSET) + kStop) == "{1}");
  CHECK(repr(kMark + num(1) + num(2) + op(Op::LIST) + kStop) == "[1, 2]");
  CHECK(repr(kMark + num(1) + num(2) + op(Op::DICT) + kStop) == "{1: 2}");
}

TEST_CASE("objects") {
  CHECK(repr(global("m", "C") + kStop) == "m.C");
  CHECK(repr(stack_global("m", "C") + num(1) + op(Op::TUPLE1) + kReduce + kStop) == "m.C(1)");
  CHECK(repr(global("m", "C") + kEmptyTuple + kNewObj + kDict + text("a") + num(1) + kSetItem + kBuild + kStop) == "m.C() with {'a': 1}");
  CHECK(repr(global("m", "D") + kEmptyTuple + kReduce + kMark + num(1) + num(2) + kSetItems + kStop) == "m.D(){1: 2}");
  CHECK(repr(global("m", "L") + kEmptyTuple + kReduce + kMark + num(1) + num(2) + kAppends + kStop) == "m.L()[1, 2]");
  CHECK(repr(global("m", "C") + kEmptyTuple + kDict + op(Op::NEWOBJ_EX) + kStop) == "m.C()");
  CHECK(repr(text("id") + kPersId + kStop) == "persistent 'id'");
}

TEST_CASE("text that CPython cannot read") {
  const auto bad = [](const std::string& pickle) {
    const PickleGraph graph(as_bytes(pickle), Place{.path = "p"}, {});
    const auto& text = graph.machine().bad_text();
    return text ? text->got : std::string();
  };
  CHECK(bad(text("\xC3\xA9") + kStop).empty());
  CHECK(bad(text("\xED\xB2\x80") + kStop).empty());  // a surrogate, as Python writes it
  CHECK(bad(text("a\xFF") + kStop) == "text 'a\xFF'");
  CHECK(bad(global("\xC3\xA9", "C") + kStop).empty());
  CHECK(bad(global("m\xFF", "C") + kStop) == "module 'm\xFF'");
  CHECK(bad(global("m", "C\xFF") + kStop) == "name 'C\xFF'");
  CHECK(bad(stack_global("m", "C\xFF") + kStop) == "text 'C\xFF'");
  CHECK(bad(global("m", "C\xFF") + op(Op::POP) + text("\xFF") + kStop) == "name 'C\xFF'");
}

TEST_CASE("the stack") {
  CHECK(repr(num(1) + num(2) + "0" + kStop) == "1");
  CHECK(repr(num(1) + kMark + num(2) + num(3) + "1" + kStop) == "1");
  CHECK(repr(num(1) + kMark + "0" + kStop) == "1");
  CHECK(repr(num(1) + "2" + op(Op::TUPLE2) + kStop) == "(1, 1)");
}

TEST_CASE("the memo") {
  CHECK(repr(kList + kMemoize + num(5) + kAppend + kMemoize + get(0) + get(1) + op(Op::TUPLE2) + kStop) == "([5], [5])");
  CHECK(repr(text("a") + put(200) + get(200) + op(Op::TUPLE2) + kStop) == "('a', 'a')");
  // MEMOIZE takes the number of slots filled so far, whatever their numbers.
  CHECK(repr(text("a") + put(7) + text("b") + kMemoize + get(1) + get(7) + op(Op::TUPLE3) + kStop) == "('b', 'b', 'a')");
  CHECK(repr(text("a") + put(1) + put(1) + text("b") + kMemoize + get(1) + op(Op::TUPLE2) + kStop) == "('b', 'b')");
  CHECK(error_of(num(1) + get(0) + kStop) == "p @ 0x2: a pickle memo slot is read before it is filled: slot 0");
  CHECK(error_of(num(1) + get(0) + kMemoize + kStop) == "p @ 0x2: a pickle memo slot is read before it is filled: slot 0");
  CHECK(error_of(op(Op::LONG_BINGET) + le(~uint32_t{0}) + kStop) ==
        "p @ 0x0: a number in the file is over the limit (got memo slot 4294967295, expected below 256)");
  CHECK(error_of(kNone + op(Op::LONG_BINPUT) + le(uint32_t{1000}) + kStop) ==
        "p @ 0x1: a number in the file is over the limit (got memo slot 1000, expected below 256)");
  CHECK(error_of(kNone + put(20) + kStop, {.pickle_memo_slots = 10}) ==
        "p @ 0x1: a number in the file is over the limit (got memo slot 20, expected below 10)");
}

TEST_CASE("a container may hold itself") {
  CHECK(repr(kList + kMemoize + get(0) + kAppend + kStop).starts_with("[[[[["));
  const std::string pickle = kDict + kMemoize + num(1) + get(0) + kSetItem + kStop;
  const PickleGraph graph(as_bytes(pickle), Place{}, Limits{});
  int visited = 0;
  graph.visit([&](const Value&) { ++visited; });
  CHECK(visited == 2);
}

TEST_CASE("underflow") {
  // Each opcode with one value fewer than it takes, above a mark that it must not reach below.
  const struct {
    Op op;
    size_t takes;
  } kTakers[] = {{Op::POP, 1},       {Op::DUP, 1},    {Op::MEMOIZE, 1},   {Op::TUPLE1, 1},       {Op::TUPLE2, 2},
                 {Op::TUPLE3, 3},    {Op::APPEND, 2}, {Op::SETITEM, 3},   {Op::REDUCE, 2},       {Op::NEWOBJ, 2},
                 {Op::NEWOBJ_EX, 3}, {Op::BUILD, 2},  {Op::BINPERSID, 1}, {Op::STACK_GLOBAL, 2}, {Op::STOP, 1}};
  for (const auto& taker : kTakers) {
    CAPTURE(op_name(taker.op));
    const std::string few = times(taker.takes - 1, kNone);
    CHECK(error_id([&] { repr(few + op(taker.op) + kStop); }) == "pickle_underflow");
    if (taker.op == Op::POP) continue;  // takes the mark itself
    CHECK(error_id([&] { repr(times(3, kNone) + kMark + few + op(taker.op) + kStop); }) == "pickle_underflow");
  }
  for (const Op code : {Op::APPENDS, Op::SETITEMS, Op::ADDITEMS}) {
    CHECK(error_id([&] { repr(kMark + op(code) + kStop); }) == "pickle_underflow");
    CHECK(error_id([&] { repr(kList + kMark + kMark + op(code) + kStop); }) == "pickle_underflow");
  }
  for (const Op code : {Op::APPENDS, Op::SETITEMS, Op::ADDITEMS, Op::TUPLE, Op::LIST, Op::DICT, Op::FROZENSET, Op::POP_MARK}) {
    CHECK(error_of(kNone + op(code) + kStop) == "p @ 0x1: no mark on the pickle's stack: " + std::string(op_name(code)));
  }
  CHECK(error_of(num(1) + op(Op::TUPLE2) + kStop) == "p @ 0x2: too few values on the pickle's stack (got 1 value, expected 2 for TUPLE2)");
  CHECK(error_of(kStop) == "p @ 0x0: too few values on the pickle's stack (got 0 values, expected 1 for STOP)");
}

TEST_CASE("operands of the wrong kind") {
  const auto operand = [](const std::string& got, const std::string& expected, unsigned at) {
    return "p @ 0x" + std::to_string(at) + ": a pickle opcode is applied to a value that it does not accept (got " + got + ", expected " +
           expected + ")";
  };
  CHECK(error_of(kDict + kNone + kAppend + kStop) == operand("a dict for APPEND", "a list", 2));
  CHECK(error_of(kList + kNone + kNone + kSetItem + kStop) == operand("a list for SETITEM", "a dict", 3));
  CHECK(error_of(kList + kMark + op(Op::ADDITEMS) + kStop) == operand("a list for ADDITEMS", "a set", 2));
  CHECK(error_of(kDict + kMark + kNone + kSetItems + kStop) == operand("an odd number of values for SETITEMS", "keys and values", 3));
  CHECK(error_of(kMark + kNone + op(Op::DICT) + kStop) == operand("an odd number of values for DICT", "keys and values", 2));
  CHECK(error_of(num(7) + kEmptyTuple + kReduce + kStop) == operand("7 for REDUCE", "a class or function", 3));
  CHECK(error_of(global("m", "f") + kList + kReduce + kStop) == operand("a list for REDUCE", "a tuple of arguments", 6));
  CHECK(error_of(num(7) + kNone + kBuild + kStop) == operand("7 for BUILD", "an object to give a state", 3));
  CHECK(error_of(num(7) + text("n") + op(Op::STACK_GLOBAL) + kStop) == operand("7 for STACK_GLOBAL", "a module's name", 8));
  CHECK(error_of(text("m") + num(7) + op(Op::STACK_GLOBAL) + kStop) == operand("7 for STACK_GLOBAL", "a global's name", 8));
  CHECK(error_of(kMark + op(Op::FROZENSET) + kMark + kNone + op(Op::ADDITEMS) + kStop) == operand("a set for ADDITEMS", "a set", 4));
  CHECK(error_of(global("m", "C") + kEmptyTuple + num(1) + op(Op::NEWOBJ_EX) + kStop) ==
        operand("1 for NEWOBJ_EX", "a dict of keywords", 8));
  CHECK(error_of(proto(6) + kNone + kStop) == "p @ 0x0: a pickle protocol that does not exist (got 6, expected at most 5)");
}

TEST_CASE("nesting") {
  const std::string deep = times(1000, kList + kMark) + times(1000, kAppends) + kStop;
  CHECK(error_of(deep) == "no error");
  CHECK(error_of(kList + kMark + deep) ==
        "p @ 0x7d1: a number in the file is over the limit (got containers nested 1001 deep, expected at most 1000)");
  // Without marks nesting costs a value on the stack for each level, and no walk recurses.
  CHECK(error_of(times(100000, kList) + times(99999, kAppend) + kStop) == "no error");
  CHECK(error_of(kNone + times(100000, kPersId) + kStop) == "no error");
  CHECK(error_of(kNone + times(100000, op(Op::TUPLE1)) + kStop) == "no error");
}

}  // namespace
}  // namespace dcp
