#include "pickle/splice.h"

#include <catch2/catch_test_macros.hpp>
#include <string>
#include <vector>

#include "base/error_line.h"
#include "pickle/graph.h"
#include "pickle/opcodes.h"

namespace dcp {
namespace {

using namespace test;

struct Spliced {
  std::string opcodes;  // of the part alone
  std::string whole;    // a pickle of ('first', part)
  std::vector<std::string> old_keys;
  SpliceResult result;

  std::string repr() const {
    const PickleGraph graph(as_bytes(whole), Place{}, Limits{});
    return graph.repr(graph.root(), {.depth = 20, .length = 2000, .text = 100});
  }
};

// Keys become k7, k8, ...
Spliced splice(const std::string& pickle, uint64_t slots_before = 1) {
  Spliced s;
  PickleWriter writer(s.whole, PickleProtocol::k2);
  writer.begin();
  writer.text("first");
  for (uint64_t i = 0; i < slots_before; ++i) writer.put();
  const size_t from = s.whole.size();
  s.result = splice_pickle(
      as_bytes(pickle), Place{.path = "p"}, Limits{},
      [&](std::string_view key) {
        s.old_keys.emplace_back(key);
        return "k" + std::to_string(6 + s.old_keys.size());
      },
      writer);
  s.opcodes = s.whole.substr(from);
  writer.tuple(2);
  writer.put();
  writer.end();
  return s;
}

std::string splice_error(const std::string& pickle) {
  return error_line([&] { splice(pickle); });
}

std::string storage(const std::string& key) {
  return kMark + text("storage") + global("torch", "FloatStorage") + key + text("cpu") + num(6) + kTuple + kPersId;
}

TEST_CASE("frames and ends go, slots move up, forms of protocol 4 become forms of protocol 2") {
  const Spliced s = splice(proto(4) + op(Op::FRAME) + le(uint64_t{0}) + short_text("ab") + kMemoize + get(0) + op(Op::TUPLE2) + kStop, 5);
  CHECK(s.opcodes == text("ab") + put(5) + get(5) + op(Op::TUPLE2));
  CHECK(s.repr() == "('first', ('ab', 'ab'))");
  CHECK(s.result.weights_only_opcodes);
}

TEST_CASE("slots above 255") {
  const Spliced s = splice(text("ab") + put(9) + get(9) + op(Op::TUPLE2) + kStop, 250);
  CHECK(s.opcodes == text("ab") + op(Op::LONG_BINPUT) + le(uint32_t{259}) + op(Op::LONG_BINGET) + le(uint32_t{259}) + op(Op::TUPLE2));
}

TEST_CASE("the slots after a spliced part are free ones") {
  std::string out;
  PickleWriter writer(out, PickleProtocol::k2);
  const std::string part = text("a") + put(4) + kStop;
  splice_pickle(as_bytes(part), Place{}, Limits{}, nullptr, writer);
  CHECK(writer.next_slot() == 5);
}

TEST_CASE("all else is copied byte for byte") {
  const std::string body = kDict + kMark + text("b") + global("_codecs", "encode") + text("x") + text("latin1") + op(Op::TUPLE2) + kReduce +
                           text("f") + "G" + std::string(8, '\0') + text("l") + op(Op::LONG1) + "\x09" + "123456789" + text("s") +
                           "U\x02hi" + kSetItems + global("m", "C") + kEmptyTuple + kNewObj + kNone + kBuild + op(Op::TUPLE2);
  const Spliced s = splice(proto(2) + body + kStop);
  CHECK(s.opcodes == body);
  CHECK(s.result.globals == std::vector<std::string>{"_codecs.encode", "m.C"});
  CHECK(s.result.weights_only_opcodes);
}

TEST_CASE("storage keys are renumbered in the order of the ids, each once") {
  const Spliced s = splice(storage(text("1")) + storage(text("0")) + storage(text("1")) + op(Op::TUPLE3) + kStop);
  CHECK(s.old_keys == std::vector<std::string>{"1", "0"});
  CHECK(
      s.repr() ==
      "('first', (persistent ('storage', torch.FloatStorage, 'k7', 'cpu', 6), persistent ('storage', torch.FloatStorage, 'k8', 'cpu', 6), "
      "persistent ('storage', torch.FloatStorage, 'k7', 'cpu', 6)))");
}

TEST_CASE("a key that shares its slot with a text of the user's") {
  const std::string expected = "('first', {'0': persistent ('storage', torch.FloatStorage, 'k7', 'cpu', 6), 'again': '0'})";
  // The user's text comes first: the key is a GET.
  CHECK(splice(kDict + kMark + text("0") + put(0) + storage(get(0)) + text("again") + get(0) + kSetItems + kStop).repr() == expected);
  // The key comes first: the user's texts are GETs. With MEMOIZE and a PUT of the key's tuple as well.
  CHECK(splice(kList + storage(text("0") + put(0)) + kAppend + get(0) + kAppend + get(0) + kAppend + kStop).repr() ==
        "('first', [persistent ('storage', torch.FloatStorage, 'k7', 'cpu', 6), '0', '0'])");
  CHECK(splice(kList + storage(short_text("0") + kMemoize) + kAppend + get(0) + kAppend + kStop).repr() ==
        "('first', [persistent ('storage', torch.FloatStorage, 'k7', 'cpu', 6), '0'])");
  // A later key that is a GET of an earlier one.
  CHECK(splice(storage(text("0") + put(3)) + storage(get(3)) + op(Op::TUPLE2) + kStop).repr() ==
        "('first', (persistent ('storage', torch.FloatStorage, 'k7', 'cpu', 6), persistent ('storage', torch.FloatStorage, 'k7', 'cpu', "
        "6)))");
  // The location is a GET of the key that stands before it.
  CHECK(splice(kMark + text("storage") + kNone + text("x") + put(1) + get(1) + num(6) + kTuple + put(2) + kPersId + kStop).repr() ==
        "('first', persistent ('storage', None, 'k7', 'x', 6))");
  // A slot that is filled anew holds what it was filled with.
  CHECK(splice(storage(text("0") + put(1)) + text("y") + put(1) + get(1) + op(Op::TUPLE3) + kStop).repr() ==
        "('first', (persistent ('storage', torch.FloatStorage, 'k7', 'cpu', 6), 'y', 'y'))");
}

TEST_CASE("opcodes and globals that weights_only refuses are told") {
  CHECK_FALSE(splice(kNone + kNone + "0" + kStop).result.weights_only_opcodes);
  CHECK_FALSE(splice(stack_global("m", "f") + kStop).result.weights_only_opcodes);
  CHECK_FALSE(splice(op(Op::SHORT_BINBYTES) + "\x01x" + kStop).result.weights_only_opcodes);
  const Spliced s = splice(short_text("m") + kMemoize + short_text("f") + op(Op::STACK_GLOBAL) + get(0) + short_text("g") +
                           op(Op::STACK_GLOBAL) + op(Op::TUPLE2) + kStop);
  CHECK(s.result.globals == std::vector<std::string>{"m.f", "m.g"});
}

TEST_CASE("ids that name no storage") {
  const std::string expected =
      ": a persistent id in the pickle names no storage (got another value, expected ('storage', class, key, location, count))";
  CHECK(splice_error(text("a") + kPersId + kStop) == "p @ 0x6" + expected);
  CHECK(splice_error(text("a") + text("b") + text("c") + op(Op::TUPLE3) + kPersId + kStop) == "p @ 0x13" + expected);
  CHECK(error_id([] { splice(storage(num(0)) + kStop); }) == "pickle_storage_id");
  // An id that is data as well would change the data with it.
  const std::string id = kMark + text("storage") + kNone + text("0") + text("cpu") + num(6) + kTuple + put(0);
  CHECK(error_id([&] { splice(id + kPersId + get(0) + op(Op::TUPLE2) + kStop); }) == "pickle_storage_id");
  CHECK(error_id([&] { splice(id + get(0) + "0" + kPersId + kStop); }) == "pickle_storage_id");
  CHECK(error_id([&] { splice(id + "2" + kPersId + op(Op::TUPLE2) + kStop); }) == "pickle_storage_id");
}

TEST_CASE("damaged pickles") {
  CHECK(error_id([] { splice(kNone); }) == "pickle_no_stop");
  CHECK(error_id([] { splice(kStop); }) == "pickle_underflow");
  CHECK(error_id([] { splice(kAppends + kStop); }) == "pickle_no_mark");
  // Readers drop what lies below the value. Here it would become part of what is around the spliced value.
  CHECK(error_id([] { splice(num(1) + num(2) + kStop); }) == "pickle_leftover");
  CHECK(error_id([] { splice(kMark + num(2) + kStop); }) == "pickle_leftover");
  CHECK(error_id([] { splice(get(0) + kStop); }) == "pickle_memo_unset");
  CHECK(error_id([] { splice(num(1) + num(1) + op(Op::STACK_GLOBAL) + kStop); }) == "pickle_operand");
  CHECK(error_id([] { splice(proto(9) + kNone + kStop); }) == "pickle_protocol");
  CHECK(error_id([] { splice(times(1001, kMark) + kStop); }) == "over_limit");
  for (const Op code : {Op::POP, Op::DUP, Op::MEMOIZE, Op::TUPLE1, Op::REDUCE, Op::NEWOBJ, Op::NEWOBJ_EX, Op::BUILD, Op::APPEND,
                        Op::SETITEM, Op::BINPERSID, Op::STACK_GLOBAL}) {
    CHECK(error_id([&] { splice(op(code) + kStop); }) == "pickle_underflow");
  }
}

TEST_CASE("every truncation and byte flip splices or is an Error") {
  const std::string pickle = proto(2) + kDict + kMark + text("0") + put(0) + storage(get(0)) + put(1) + text("t") + stack_global("m", "f") +
                             kEmptyTuple + kReduce + kMemoize + kSetItems + kStop;
  const auto attempt = [](const std::string& damaged) {
    try {
      splice(damaged);
    } catch (const Error&) {
    }
  };
  for (size_t n = 0; n < pickle.size(); ++n) attempt(pickle.substr(0, n));
  for (size_t n = 0; n < pickle.size(); ++n) {
    for (int flip = 1; flip < 256; ++flip) {
      std::string damaged = pickle;
      damaged[n] = static_cast<char>(damaged[n] ^ flip);
      attempt(damaged);
    }
  }
  SUCCEED();
}

}  // namespace
}  // namespace dcp
