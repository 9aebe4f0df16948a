// The arena rolls back behind finished objects: nothing that is still reachable may go with it.
#include <catch2/catch_test_macros.hpp>
#include <deque>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "pickle/machine.h"
#include "pickle/opcodes.h"

namespace dcp {
namespace {

using namespace test;

// Turns every object and call into a number: the hash of what its state or arguments looked like at that moment.
struct HashHandler {
  uint64_t max_cells = 0;
  Value global(PickleMachine&, std::string_view, std::string_view) { return {.kind = Kind::kGlobal, .n = 1}; }
  Value reduce(PickleMachine& m, const Value&, const Value& arguments) { return hashed(m, arguments); }
  Value new_object(PickleMachine& m, const Value& cls, const Value&, const Value&) { return m.open(cls.n); }
  Value build(PickleMachine& m, const Value&, const Value& state) { return hashed(m, state); }
  Value persistent(PickleMachine& m, const Value& id) { return hashed(m, id); }

  Value hashed(PickleMachine& m, const Value& v) {
    max_cells = std::max(max_cells, m.arena_cells());
    return {.kind = Kind::kTyped, .payload = std::hash<std::string>{}(look(m, v, 5))};
  }
  static std::string look(const PickleMachine& m, const Value& v, int depth) {
    switch (v.kind) {
      case Kind::kInt: return std::to_string(v.payload);
      case Kind::kTyped: return "<" + std::to_string(v.payload) + ">";
      case Kind::kOpen: return "o";
      case Kind::kGlobal: return "g";
      default: break;
    }
    std::string out = v.kind == Kind::kTuple ? "(" : "[";
    Value item;
    if (depth > 0) {
      for (auto it = m.items(v); it.next(item);) out += look(m, item, depth - 1) + ",";
    }
    return out + ")";
  }
};

std::string run(const std::string& pickle, uint64_t* max_cells = nullptr) {
  const Place place;
  const Limits limits;
  PickleMachine m(as_bytes(pickle), place, limits);
  HashHandler handler;
  const Value root = m.run(handler);
  if (max_cells != nullptr) *max_cells = handler.max_cells;
  return HashHandler::look(m, root, 8);
}

std::string hash_of(const std::string& look) { return "<" + std::to_string(std::hash<std::string>{}(look)) + ">"; }

const std::string kNew = global("m", "C") + kEmptyTuple + kNewObj;

TEST_CASE("a million cells of finished objects do not add up") {
  const std::string object = kNew + kList + kMark + times(100, num(1)) + kAppends + kBuild;
  uint64_t most = 0;
  run(kList + kMark + times(1000, object) + kAppends + kStop, &most);
  CHECK(most < 250);
  const std::string call = global("m", "f") + num(1) + num(2) + op(Op::TUPLE2) + op(Op::TUPLE1) + kReduce;
  run(kList + kMark + times(1000, call) + kAppends + kStop, &most);
  CHECK(most < 20);
}

TEST_CASE("a list in the memo outlives the object that it was made in") {
  const std::string built = hash_of("[[7,),)");
  // The list is the object's state, then read again.
  CHECK(run(kNew + kList + kList + kMemoize + num(7) + kAppend + kAppend + kBuild + num(9) + op(Op::TUPLE1) + get(0) + op(Op::TUPLE3) +
            kStop) == "(" + built + ",(9,),[7,),)");
  // It grows after it was stored: what it grew by stays as well.
  CHECK(run(kNew + kList + kMemoize + kMark + num(1) + num(2) + kAppends + num(3) + kAppend + kBuild + kMark + num(8) + num(8) + num(8) +
            kTuple + get(0) + op(Op::TUPLE3) + kStop) == "(" + hash_of("[1,2,3,)") + ",(8,8,8,),[1,2,3,),)");
}

TEST_CASE("an append to an outer list from inside an open object") {
  // list; object { get list, append tuple }; the tuple lies above the object's start.
  CHECK(run(kList + kMemoize + kNew + get(0) + num(5) + op(Op::TUPLE1) + kAppend + kBuild + num(6) + num(6) + num(6) + op(Op::TUPLE3) +
            "0" + kAppend + kStop) == "[(5,)," + hash_of("[(5,),)") + ",)");
  // The same from inside a call, where nothing but the function on the stack says that it began.
  CHECK(run(kList + kMemoize + global("m", "f") + get(0) + num(5) + op(Op::TUPLE1) + kAppend + op(Op::TUPLE1) + kReduce + num(6) + num(6) +
            num(6) + op(Op::TUPLE3) + "0" + kAppend + kStop) == "[(5,)," + hash_of("([(5,),),)") + ",)");
}

TEST_CASE("an object read from the memo before and after it is built") {
  const std::string inner = hash_of("[o,)");
  CHECK(run(kNew + kMemoize + kList + get(0) + kAppend + kMemoize + kBuild + get(0) + get(1) + op(Op::TUPLE3) + kStop) ==
        "(" + inner + "," + inner + ",[" + inner + ",),)");
}

TEST_CASE("an object finished through the memo, with a newer one below it on the stack") {
  CHECK(run(kNew + kMemoize + kNew + get(0) + num(7) + op(Op::TUPLE1) + kBuild + kList + op(Op::TUPLE3) + kStop) ==
        "(o," + hash_of("(7,)") + ",[),)");
}

TEST_CASE("an object doubled by DUP") {
  // The first of the two is left unfinished on the stack; it is the same object, so it is finished too.
  const std::string built = hash_of("(7,)");
  CHECK(run(kNew + "2" + num(7) + op(Op::TUPLE1) + kBuild + kMark + num(1) + num(2) + kTuple + op(Op::TUPLE3) + kStop) ==
        "(" + built + "," + built + ",(1,2,),)");
}

TEST_CASE("a long tuple of numbers is kept once, as long as it is there") {
  const auto numbers = [](int last) { return kMark + times(19, num(7)) + num(static_cast<uint8_t>(last)) + kTuple; };
  const auto look = [](int last) { return "(" + times(19, "7,") + std::to_string(last) + ",)"; };
  uint64_t once = 0, often = 0;
  const auto list = [&](const std::string& items) { return kNew + kList + kMark + items + kAppends + kBuild + kStop; };
  run(list(numbers(1)), &once);
  run(list(times(100, numbers(1))), &often);
  CHECK(often - once < 120);  // a cell each
  CHECK(run(kList + kMark + times(2, numbers(1) + numbers(2)) + kAppends + kStop) == "[" + times(2, look(1) + "," + look(2) + ",") + ")");
  // The object goes with the tuple that it was made in; the next one is another.
  CHECK(run(kList + kMark + times(2, kNew + numbers(1) + kBuild + num(8) + num(9) + op(Op::TUPLE2) + numbers(1)) + kAppends + kStop) ==
        "[" + times(2, hash_of(look(1)) + ",(8,9,)," + look(1) + ",") + ")");
  // Not where something else is between the numbers, or the pickle ends.
  CHECK(run(kList + kMark + numbers(1) + kMark + times(19, num(7)) + kList + kTuple + kAppends + kStop) ==
        "[" + look(1) + ",(" + times(19, "7,") + "[),),)");
}

// --- against a plain reference: random pickles, every value kept

struct Node;
using Ref = Node*;  // owned by RandomPickle: cycles are part of the game
struct Node {
  enum { kInt, kTuple, kList, kGlobal, kObject } kind = kInt;
  uint64_t number = 0;
  bool built = false;
  std::vector<Ref> items = {};
};

std::string look(Ref n, int depth) {
  switch (n->kind) {
    case Node::kInt: return std::to_string(n->number);
    case Node::kGlobal: return "g";
    case Node::kObject: return n->built ? "<" + std::to_string(n->number) + ">" : "o";
    default: break;
  }
  std::string out = n->kind == Node::kTuple ? "(" : "[";
  if (depth > 0) {
    for (const Ref item : n->items) out += look(item, depth - 1) + ",";
  }
  return out + ")";
}

class RandomPickle {
 public:
  explicit RandomPickle(uint32_t seed) : random_(seed) {
    push({.kind = Node::kInt}, num(0));
    for (int i = 0; i < 120; ++i) step();
    // Everything that is left, and everything in the memo, is part of the answer.
    for (size_t slot = 0; slot < memo_.size(); ++slot) {
      stack_.push_back(memo_[slot]);
      out_ += get(static_cast<uint8_t>(slot));
    }
    while (stack_.size() > 1) tuple(std::min<size_t>(3, stack_.size()));
    out_ += kStop;
  }
  const std::string& pickle() const { return out_; }
  std::string answer() const { return look(stack_.back(), 8); }

 private:
  size_t below(size_t n) { return random_() % n; }
  void push(Node node, const std::string& code) {
    stack_.push_back(&nodes_.emplace_back(std::move(node)));
    out_ += code;
  }
  Ref at(size_t from_top) const { return stack_[stack_.size() - 1 - from_top]; }
  void tuple(size_t n) {
    constexpr Op kOps[] = {Op::TUPLE1, Op::TUPLE2, Op::TUPLE3};
    Node node{.kind = Node::kTuple, .items = {stack_.end() - static_cast<ptrdiff_t>(n), stack_.end()}};
    stack_.resize(stack_.size() - n);
    push(std::move(node), op(kOps[n - 1]));
  }
  void finish(Ref object, Ref from) {
    object->number = std::hash<std::string>{}(look(from, 5));
    object->built = true;
    stack_.resize(stack_.size() - 2);
    stack_.push_back(object);
  }
  void step() {
    switch (below(13)) {
      case 0:
        return push({.kind = Node::kInt, .number = static_cast<uint64_t>(out_.size() % 200)}, num(static_cast<uint8_t>(out_.size() % 200)));
      case 1: return push({.kind = Node::kList}, kList);
      case 2: return push({.kind = Node::kGlobal}, global("m", "f"));
      case 3: return push({.kind = Node::kObject}, kNew);
      case 4:
        if (const size_t n = 1 + below(3); stack_.size() > n) tuple(n);
        return;
      case 5:
        if (memo_.size() >= 30) return;
        memo_.push_back(stack_.back());
        out_ += kMemoize;
        return;
      case 6:
        if (memo_.empty()) return;
        out_ += get(static_cast<uint8_t>(below(memo_.size())));
        stack_.push_back(memo_[static_cast<uint8_t>(out_.back())]);
        return;
      case 7:
        if (below(3) != 0) return;
        stack_.push_back(stack_.back());
        out_ += "2";
        return;
      case 8:
        if (stack_.size() < 2 || below(3) != 0) return;
        stack_.pop_back();
        out_ += "0";
        return;
      case 9:
      case 10:
        if (stack_.size() < 2 || at(1)->kind != Node::kList) return;
        at(1)->items.push_back(at(0));
        stack_.pop_back();
        out_ += kAppend;
        return;
      case 11:
        if (stack_.size() < 2 || at(1)->kind != Node::kObject || at(1)->built) return;
        out_ += kBuild;
        return finish(at(1), at(0));
      default:
        if (stack_.size() < 2 || at(1)->kind != Node::kGlobal || at(0)->kind != Node::kTuple) return;
        out_ += kReduce;
        return finish(&nodes_.emplace_back(Node{.kind = Node::kObject}), at(0));
    }
  }

  std::mt19937 random_;
  std::string out_;
  std::deque<Node> nodes_;
  std::vector<Ref> stack_;
  std::vector<Ref> memo_;
};

TEST_CASE("random pickles read as if nothing were ever rolled back") {
  for (uint32_t seed = 0; seed < 3000; ++seed) {
    CAPTURE(seed);
    const RandomPickle random(seed);
    REQUIRE(run(random.pickle()) == random.answer());
  }
}

}  // namespace
}  // namespace dcp
