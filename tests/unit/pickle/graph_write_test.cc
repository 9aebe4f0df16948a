// A value of a graph as a pickle of its own: read again it is the same graph.
#include "pickle/graph_write.h"

#include <catch2/catch_test_macros.hpp>

#include "pickle/opcodes.h"

namespace dcp {
namespace {

using namespace test;

// What is written for a pickle's root; it must read back as the same.
std::string again(const std::string& pickle, uint64_t cap = 1 << 20) {
  const PickleGraph graph(as_bytes(pickle), Place{}, Limits{});
  const WrittenValue written = write_value(graph, graph.root(), Place{}, cap);
  const PickleGraph back(as_bytes(written.pickle), Place{}, Limits{});
  const ReprCaps caps{.depth = 20, .length = 10000, .text = 1000};
  CHECK(back.repr(back.root(), caps) == graph.repr(graph.root(), caps));
  return written.pickle;
}
uint64_t count(const std::string& text, std::string_view part) {
  uint64_t n = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++n;
  return n;
}

}  // namespace

TEST_CASE("scalars and containers") {
  again(kMark + num(1) + text("x") + op(Op::NONE) + op(Op::NEWTRUE) + kTuple + kStop);
  again(kEmptyTuple + kStop);
  again(kMark + kList + kMark + num(1) + kMark + num(2) + num(30) + num(70) + num(4) + kTuple + op(Op::APPENDS) + kDict + kTuple + kStop);
  again(op(Op::EMPTY_SET) + kMark + num(1) + num(2) + op(Op::ADDITEMS) + kStop);
  again(kMark + num(1) + op(Op::FROZENSET) + kStop);
}

TEST_CASE("calls keep their form") {
  CHECK(count(again(global("m", "f") + num(1) + op(Op::TUPLE1) + kReduce + num(2) + kBuild + kStop), "R") == 1);
  CHECK(again(global("m", "C") + kEmptyTuple + op(Op::NEWOBJ) + kStop).find(static_cast<char>(Op::NEWOBJ)) != std::string::npos);
  CHECK(again(global("m", "C") + kEmptyTuple + kDict + op(Op::NEWOBJ_EX) + kStop).find(static_cast<char>(Op::NEWOBJ_EX)) !=
        std::string::npos);
  // An OrderedDict with items and a state.
  again(global("collections", "OrderedDict") + kEmptyTuple + kReduce + kMark + text("k") + num(1) + op(Op::SETITEMS) + kDict + kBuild +
        kStop);
}

TEST_CASE("what is shared stays shared") {
  const std::string pickle =
      kMark + kList + kMemoize + num(1) + kAppend + get(0) + get(0) + text("a long text") + op(Op::MEMOIZE) + get(1) + kTuple + kStop;
  const std::string out = again(pickle);
  CHECK(count(out, "]") == 1);
  CHECK(count(out, "a long text") == 1);
}

TEST_CASE("cycles end") {
  // l = []; t = (l,); l.append(t)
  const std::string list_first =
      kList + kMemoize + op(Op::TUPLE1) + kMemoize + op(Op::POP) + get(0) + get(1) + kAppend + op(Op::POP) + get(1) + kStop;
  const PickleGraph graph(as_bytes(list_first), Place{}, Limits{});
  const WrittenValue written = write_value(graph, graph.root(), Place{}, 1000);
  const PickleGraph back(as_bytes(written.pickle), Place{}, Limits{});
  const PickleMachine& m = back.machine();
  REQUIRE(back.root().kind == Kind::kTuple);
  Value inside;
  auto items = m.items(m.element(back.root(), 0));
  REQUIRE(items.next(inside));
  CHECK(inside.payload == back.root().payload);
}

TEST_CASE("storages are named, other persistent ids refused, the size is capped") {
  const auto id = [](const std::string& key) {
    return kMark + text("storage") + global("torch", "FloatStorage") + text(key) + text("cpu") + num(4) + kTuple + kPersId;
  };
  const std::string pickle = kMark + id("7") + id("3") + id("7") + kTuple + kStop;
  const PickleGraph graph(as_bytes(pickle), Place{}, Limits{});
  CHECK(write_value(graph, graph.root(), Place{}, 1000).storage_keys == std::vector<std::string>{"3", "7"});
  CHECK_THROWS_AS(write_value(graph, graph.root(), Place{}, 50), Error);
  const std::string odd = num(1) + kPersId + kStop;
  const PickleGraph other(as_bytes(odd), Place{}, Limits{});
  CHECK_THROWS_AS(write_value(other, other.root(), Place{}, 1000), Error);
}

}  // namespace dcp
