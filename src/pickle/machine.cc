#include "pickle/machine.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "base/text.h"

namespace dcp {
namespace {

std::string plural(uint64_t count, std::string_view what) {
  return std::to_string(count) + " " + std::string(what) + (count == 1 ? "" : "s");
}

}  // namespace

PickleMachine::PickleMachine(Bytes pickle, const Place& place, const Limits& limits)
    : pickle_(pickle),
      place_(&place),
      limits_(&limits),
      reader_(pickle, place),
      memo_(pickle, place, limits),
      // A growing vector exists twice for a moment.
      max_cells_(limits.memory_bytes / (2 * sizeof(Value))) {}

void PickleMachine::fail_operand(const Value& got, std::string_view expected) const {
  fail(ProblemId::pickle_operand, place(), describe(got) + " for " + std::string(op_name(token_.op)), std::string(expected));
}

void PickleMachine::fail_count(uint64_t count) const {
  fail(ProblemId::over_limit, place(), std::to_string(count) + " values or bytes in one", "below 4294967296");
}

void PickleMachine::fail_underflow(uint64_t count) const {
  fail(ProblemId::pickle_underflow, place(), plural(stack_.size() - floor_, "value"),
       std::to_string(count) + " for " + std::string(op_name(token_.op)));
}

std::string PickleMachine::describe(const Value& v) const {
  switch (v.kind) {
    case Kind::kUnset: return "nothing";
    case Kind::kNil: return "None";
    case Kind::kBool: return v.payload != 0 ? "True" : "False";
    case Kind::kInt: return std::to_string(v.integer());
    case Kind::kFloat: return "a float";
    case Kind::kText: return "text '" + std::string(text(v).substr(0, 200)) + "'";
    case Kind::kBytes: return "bytes";
    case Kind::kBig: return "an integer of " + plural(v.n, "byte");
    case Kind::kGlobal: return "a class or function";
    case Kind::kTuple: return "a tuple of " + std::to_string(v.n);
    case Kind::kList: return "a list";
    case Kind::kDict: return "a dict";
    case Kind::kSet: return "a set";
    case Kind::kTyped:
    case Kind::kOpaque:
    case Kind::kOpen:
    case Kind::kObject: return "an object";
  }
  return "";
}

// --- the stack

void PickleMachine::push_view(Kind kind, std::string_view view) {
  const auto offset = static_cast<uint64_t>(view.data() - reinterpret_cast<const char*>(pickle_.data()));
  push({.kind = kind, .n = counted(view.size()), .payload = offset});
}

void PickleMachine::push_mark() {
  if (marks_.size() >= limits_->pickle_depth) {
    fail(ProblemId::over_limit, place(), "containers nested " + std::to_string(marks_.size() + 1) + " deep",
         "at most " + std::to_string(limits_->pickle_depth));
  }
  marks_.push_back(floor_ = stack_.size());
  marked_ = reader_.position();
}

void PickleMachine::drop_mark() {
  marks_.pop_back();
  floor_ = marks_.empty() ? 0 : marks_.back();
}

uint64_t PickleMachine::pop_mark() {
  if (marks_.empty()) fail(ProblemId::pickle_no_mark, place(), std::string(op_name(token_.op)));
  const uint64_t mark = marks_.back();
  drop_mark();
  return mark;
}

// --- the arena

// Grows by doubling. A growing array exists twice until it is copied.
void PickleMachine::make_room(Cells& cells, const Cells& others, uint64_t count) {
  const uint64_t max = max_cells_ - others.room();
  if (count > max || cells.size() > max - count) fail_memory();
  cells.set_room(std::min(max, std::max<uint64_t>({64, cells.size() + count, 2 * cells.room()})));
}

void PickleMachine::append(uint64_t chain, uint64_t first, Kind like) {
  const uint64_t segment = arena_.size();
  if (first == stack_.size()) return;
  add_to_arena({.tag = like == Kind::kDict, .n = counted(stack_.size() - first), .payload = kNowhere});
  move_to_arena(first);
  Value& head = arena_[chain];
  (head.payload == kNowhere ? head.payload : arena_[head.n | uint64_t{head.tag} << 32].payload) = segment;
  head.n = static_cast<uint32_t>(segment);
  head.tag = static_cast<uint16_t>(segment >> 32);
  grown(chain);
}

Value PickleMachine::open(uint32_t class_id, bool is_known) {
  const Value v{.kind = Kind::kOpen, .tag = is_known ? uint16_t{0} : kForeign, .n = class_id, .payload = arena_.size()};
  add_to_arena({});
  return v;
}

Value PickleMachine::tuple(std::span<const Value> elements) {
  const Value v{.kind = Kind::kTuple, .n = counted(elements.size()), .payload = arena_.size()};
  for (const Value& e : elements) add_to_arena(e);
  return v;
}

Value PickleMachine::object(Value callable, Value arguments) {
  const Value v{.kind = Kind::kObject, .payload = arena_.size()};
  add_to_arena(callable);
  add_to_arena(arguments);
  add_to_arena({});
  make_chain(Kind::kObject);
  return v;
}

PickleMachine::Items PickleMachine::items(const Value& container) const {
  Items it(this);
  switch (container.kind) {
    case Kind::kTuple:
      it.at_ = container.payload;
      it.end_ = container.payload + container.n;
      break;
    case Kind::kList:
    case Kind::kDict:
    case Kind::kSet: it.next_segment_ = arena_[container.payload].payload; break;
    case Kind::kObject: it.next_segment_ = arena_[container.payload + kObjectChain].payload; break;
    default: break;
  }
  return it;
}

uint64_t PickleMachine::count(const Value& container) const {
  uint64_t total = 0;
  for (Items it = items(container);;) {
    total += it.end_ - it.at_;
    if (it.next_segment_ == kNowhere) return total;
    it.enter(it.next_segment_);
  }
}

// --- opcodes

void PickleMachine::push_scalar() {
  switch (token_.op) {
    case Op::NONE: return push({.kind = Kind::kNil});
    case Op::NEWTRUE: return push_number(Kind::kBool, 1);
    case Op::NEWFALSE: return push_number(Kind::kBool, 0);
    case Op::BINFLOAT: return push_number(Kind::kFloat, std::bit_cast<uint64_t>(token_.real));
    case Op::LONG1:
    case Op::LONG4:
      if (token_.is_big) return push_view(Kind::kBig, token_.text);
      return push_number(Kind::kInt, static_cast<uint64_t>(token_.integer));
    case Op::SHORT_BINUNICODE:
    case Op::BINUNICODE:
    case Op::BINUNICODE8:
    case Op::SHORT_BINSTRING:
    case Op::BINSTRING: return push_text();
    default: push_view(Kind::kBytes, token_.text); stack_.back().tag = token_.op == Op::BYTEARRAY8;
  }
}

void PickleMachine::check_text(std::string_view what, std::string_view text) {
  if (bad_text_ || is_pickled_text(text)) return;
  bad_text_ = {place(), std::string(what) + " '" + std::string(text.substr(0, 200)) + "'"};
}

void PickleMachine::push_text() {
  check_text("text", token_.text);
  push_view(Kind::kText, token_.text);
}

void PickleMachine::fail_unset() const { fail(ProblemId::pickle_memo_unset, place(), "slot " + std::to_string(token_.integer)); }

void PickleMachine::fail_memory() const {
  throw Error(
      with_remedy(make_problem(ProblemId::memory_cap, place(),
                               "more than " + std::to_string(max_cells_) + " values in the first " + std::to_string(reader_.position()) +
                                   " of the pickle's " + std::to_string(reader_.size()) + " bytes"),
                  Remedy::kMoreMemory));
}

void PickleMachine::keep_numbers(const Value& tuple) {
  constexpr uint64_t kLong = 16, kKeptTuples = 8;
  if (tuple.n < kLong) return;
  uint64_t at = marked_;
  while (at < token_.offset) {
    switch (static_cast<Op>(pickle_[at])) {
      case Op::BININT1: at += fixed_bytes(OpForm::u8); break;
      case Op::BININT2: at += fixed_bytes(OpForm::u16); break;
      case Op::BININT: at += fixed_bytes(OpForm::i32); break;
      default: return;
    }
  }
  if (number_tuples_.size() == kKeptTuples) number_tuples_.erase(number_tuples_.begin());
  number_tuples_.push_back({.begin = marked_, .bytes = token_.end - marked_, .value = tuple});
}

bool PickleMachine::push_known_numbers() {
  const Bytes rest = pickle_.subspan(reader_.position());
  const auto is_here = [&](const NumberTuple& t) {
    return t.bytes <= rest.size() && std::memcmp(rest.data(), pickle_.data() + t.begin, t.bytes) == 0;
  };
  const auto known = std::ranges::find_if(number_tuples_, is_here);
  if (known == number_tuples_.end()) return false;
  reader_.go_to(reader_.position() + known->bytes);
  push(known->value);
  return true;
}

// Opcodes that make a container from values on the stack.
void PickleMachine::collect(Op op) {
  switch (op) {
    case Op::TUPLE: {
      const Value tuple = make_tuple(pop_mark());
      keep_numbers(tuple);
      return push(tuple);
    }
    case Op::EMPTY_LIST: return push(make_chain(Kind::kList));
    case Op::EMPTY_SET: return push(make_chain(Kind::kSet));
    default: break;
  }
  // LIST, DICT, FROZENSET: a new chain of what lies above the mark.
  const uint64_t first = pop_mark();
  if (op == Op::DICT && (stack_.size() - first) % 2 != 0)
    fail(ProblemId::pickle_operand, place(), "an odd number of values for DICT", "keys and values");
  const Value v = make_chain(op == Op::LIST ? Kind::kList : op == Op::DICT ? Kind::kDict : Kind::kSet, op == Op::FROZENSET ? 1 : 0);
  append(v.payload, first, v.kind);
  push(v);
}

// APPEND(S), SETITEM(S), ADDITEMS: add the values from `first` on to the container just below them.
void PickleMachine::add_items(Kind wanted, uint64_t first) {
  if (first <= floor_) fail_underflow(stack_.size() - floor_ + 1);
  if (wanted == Kind::kDict && (stack_.size() - first) % 2 != 0) {
    fail(ProblemId::pickle_operand, place(), "an odd number of values for " + std::string(op_name(token_.op)), "keys and values");
  }
  const Value target = stack_[first - 1];
  if (is_opaque(target)) return stack_.cut(first);
  if (target.kind == Kind::kObject) return append(target.payload + kObjectChain, first, wanted);
  if (target.kind != wanted || target.tag != 0) {
    fail_operand(target, wanted == Kind::kList ? "a list" : wanted == Kind::kDict ? "a dict" : "a set");
  }
  append(target.payload, first, wanted);
}

void PickleMachine::run_plain(Op op) {
  switch (op) {
    case Op::PROTO:
      if (token_.integer > 5) fail(ProblemId::pickle_protocol, place(), std::to_string(token_.integer), "at most 5");
      return;
    case Op::FRAME: return;
    case Op::POP:
      // As in CPython, POP removes the mark if there is no value above it.
      if (stack_.size() == floor_ && !marks_.empty()) return drop_mark();
      need(1);
      stack_.cut(stack_.size() - 1);
      return;
    case Op::POP_MARK: return stack_.cut(pop_mark());
    case Op::DUP:
      need(1);
      push(stack_.back());
      return memoize_top(true);
    case Op::BINPUT:
    case Op::LONG_BINPUT: need(1); return memoize_top(memo_.put(static_cast<uint64_t>(token_.integer), stack_.back()));
    case Op::APPEND: need(2); return add_items(Kind::kList, stack_.size() - 1);
    case Op::SETITEM: need(3); return add_items(Kind::kDict, stack_.size() - 2);
    case Op::APPENDS: return add_items(Kind::kList, pop_mark());
    case Op::SETITEMS: return add_items(Kind::kDict, pop_mark());
    case Op::ADDITEMS: return add_items(Kind::kSet, pop_mark());
    case Op::TUPLE:
    case Op::EMPTY_LIST:
    case Op::EMPTY_SET:
    case Op::LIST:
    case Op::DICT:
    case Op::FROZENSET: return collect(op);
    default: return push_scalar();
  }
}

void PickleMachine::finish_build(const Value& object, const Value& result) {
  if (object.kind == Kind::kOpen) {
    arena_[object.payload] = result;  // for memo slots that hold the unfinished object
    if (result.in_arena()) grown(object.payload);
    else if ((object.tag & kKept) == 0) roll_back(object.payload);
  }
  push(result);
}

}  // namespace dcp
