#include "pickle/graph.h"

#include <catch2/catch_test_macros.hpp>
#include <string>
#include <vector>

#include "pickle/opcodes.h"

namespace dcp {
namespace {

using namespace test;

TEST_CASE("caps of a repr") {
  const std::string pickle = kMark + text(std::string(100, 'a')) + num(1) + kMark + kMark + num(2) + kTuple + kTuple + kTuple + kStop;
  const PickleGraph graph(as_bytes(pickle), Place{}, Limits{});
  CHECK(graph.repr(graph.root(), {.depth = 9, .length = 200, .text = 3}) == "('aaa'..., 1, ((2,),))");
  CHECK(graph.repr(graph.root(), {.depth = 2, .length = 200, .text = 3}) == "('aaa'..., 1, (...,))");
  CHECK(graph.repr(graph.root(), {.depth = 9, .length = 10, .text = 3}) == "('aaa'...,...");
  const std::string accents = text("\xc3\xa9\xc3\xa9") + kStop;
  const PickleGraph cut(as_bytes(accents), Place{}, Limits{});
  CHECK(cut.repr(cut.root(), {.depth = 1, .length = 99, .text = 3}) == "'\xc3\xa9'...");
}

TEST_CASE("a visit sees each shared value once, in order") {
  const std::string pickle = kMark + kList + kMemoize + num(1) + kAppend + get(0) + global("m", "f") + num(2) + op(Op::TUPLE1) + kReduce +
                             num(3) + kBuild + kTuple + kStop;
  const PickleGraph graph(as_bytes(pickle), Place{}, Limits{});
  std::vector<std::string> seen;
  graph.visit([&](const Value& v) { seen.push_back(graph.repr(v)); });
  CHECK(seen == std::vector<std::string>{"([1], [1], m.f(2) with 3)", "[1]", "1", "m.f(2) with 3", "m.f", "(2,)", "2", "3"});
}

TEST_CASE("what globals and persistent ids are called") {
  const std::string pickle = global("m", "f") + kEmptyTuple + kReduce + num(1) + kPersId + op(Op::TUPLE2) + kStop;
  const PickleGraph graph(as_bytes(pickle), Place{}, Limits{});
  const Value call = graph.machine().element(graph.root(), 0);
  const Value id = graph.machine().element(graph.root(), 1);
  CHECK(graph.global_of(call) == "m.f");
  CHECK_FALSE(graph.is_persistent(call));
  CHECK(graph.is_persistent(id));
  CHECK(graph.global_of(id).empty());
}

TEST_CASE("floats") {
  for (const auto& [value, shown] :
       std::vector<std::pair<double, std::string>>{{1, "1.0"}, {0.1, "0.1"}, {1e300, "1e+300"}, {-2.5, "-2.5"}}) {
    const std::string pickle = "G" + [v = value] {
      std::string bytes = le(v);
      return std::string(bytes.rbegin(), bytes.rend());
    }() + kStop;
    const PickleGraph graph(as_bytes(pickle), Place{}, Limits{});
    CHECK(graph.repr(graph.root()) == shown);
  }
}

}  // namespace
}  // namespace dcp
