#include "pickle/shadow.h"

#include <limits>
#include <string>

namespace dcp {

void ShadowStack::need(const Token& t, uint64_t count) const {
  if (stack_.size() - floor() >= count) return;
  const uint64_t there = stack_.size() - floor();
  fail(ProblemId::pickle_underflow, at_offset(*place_, t.offset), std::to_string(there) + (there == 1 ? " value" : " values"),
       std::to_string(count) + " for " + std::string(op_name(t.op)));
}

uint64_t ShadowStack::pop_mark(const Token& t) {
  if (marks_.empty()) fail(ProblemId::pickle_no_mark, at_offset(*place_, t.offset), std::string(op_name(t.op)));
  const uint64_t mark = marks_.back();
  marks_.pop_back();
  return mark;
}

void ShadowStack::replace(const Token& t, uint64_t count) {
  need(t, count);
  stack_.resize(stack_.size() - count);
  stack_.push_back({.push = t.offset});
}

void ShadowStack::push_literal(const Token& t) {
  const auto header = t.text.data() - reinterpret_cast<const char*>(pickle_.data() + t.offset);
  const uint64_t bytes = static_cast<uint64_t>(header) + t.text.size();  // without the end of a line
  if (bytes > std::numeric_limits<uint32_t>::max()) {
    fail(ProblemId::over_limit, at_offset(*place_, t.offset), "a text of " + std::to_string(bytes) + " bytes", "below 4294967296");
  }
  const Literal literal{t.offset, static_cast<uint32_t>(bytes), static_cast<uint16_t>(header)};
  stack_.push_back({.push = t.offset, .text = literal});
}

void ShadowStack::push_tuple(const Token& t, uint64_t first) {
  Shadow tuple{.push = t.offset, .tuple = kOtherTuple};
  if (stack_.size() - first > 2 && stack_[first].text && stack_[first + 2].text && text(stack_[first].text) == "storage") {
    tuple.tuple = static_cast<uint32_t>(ids_.size());
    ids_.push_back({.key = stack_[first + 2].text, .key_push = stack_[first + 2].push});
  }
  stack_.resize(first);
  stack_.push_back(tuple);
}

void ShadowStack::take_persistent_id(const Token& t) {
  need(t, 1);
  if (storage_ids_ == StorageIds::kAny) return replace(t, 1);
  const Shadow id = stack_.back();
  // A tuple in the memo could also be used as data, and then its text must not change.
  if (id.tuple >= ids_.size() || shared_tuples_.contains(id.push)) {
    fail(ProblemId::pickle_storage_id, at_offset(*place_, t.offset), "another value", "('storage', class, key, location, count)");
  }
  id_tuples_.insert(id.push);
  key_use_ = KeyUse{.push = ids_[id.tuple].key_push, .key = ids_[id.tuple].key};
  replace(t, 1);
}

void ShadowStack::take_stack_global(const Token& t) {
  need(t, 2);
  const Literal module = stack_[stack_.size() - 2].text;
  const Literal name = stack_.back().text;
  if (!module || !name) {
    fail(ProblemId::pickle_operand, at_offset(*place_, t.offset), "a value that is not text for STACK_GLOBAL", "a module and a name");
  }
  module_ = text(module);
  name_ = text(name);
  replace(t, 2);
  stack_.back().is_global = true;
}

void ShadowStack::take_get(const Token& t) {
  const Value kept = memo_.get(static_cast<uint64_t>(t.integer));
  if (kept.kind == Kind::kUnset) fail(ProblemId::pickle_memo_unset, at_offset(*place_, t.offset), "slot " + std::to_string(t.integer));
  if (kept.kind == Kind::kText) got_ = {kept.payload, kept.n, kept.tag};
  if (kept.kind == Kind::kTuple) {
    if (id_tuples_.contains(kept.payload)) fail(ProblemId::pickle_storage_id, at_offset(*place_, t.offset), "an id that is data as well");
    shared_tuples_.insert(kept.payload);
  }
  stack_.push_back({.push = t.offset, .text = got_, .is_global = kept.kind == Kind::kOpaque && kept.tag != 0});
}

void ShadowStack::take_put(const Token& t, bool explicit_slot) {
  need(t, 1);
  const Shadow& top = stack_.back();
  Value kept{.kind = top.tuple != kNoTuple ? Kind::kTuple : Kind::kOpaque, .tag = top.is_global, .payload = top.push};
  if (top.text) kept = {.kind = Kind::kText, .tag = top.text.header, .n = top.text.bytes, .payload = top.text.offset};
  slot_ = explicit_slot ? static_cast<uint64_t>(t.integer) : memo_.size();
  if (explicit_slot) memo_.put(slot_, kept);
  else memo_.memoize(kept);
}

// Runs opcodes that combine values on the stack into one. Returns false for any other.
bool ShadowStack::step_container(const Token& t) {
  switch (t.op) {
    case Op::EMPTY_TUPLE: push_tuple(t, stack_.size()); return true;
    case Op::TUPLE1:
    case Op::TUPLE2:
    case Op::TUPLE3: {
      const auto count = static_cast<uint64_t>(t.op) - static_cast<uint64_t>(Op::TUPLE1) + 1;
      need(t, count);
      push_tuple(t, stack_.size() - count);
      return true;
    }
    case Op::TUPLE: push_tuple(t, pop_mark(t)); return true;
    case Op::LIST:
    case Op::DICT:
    case Op::FROZENSET:
    case Op::OBJ:
      stack_.resize(pop_mark(t));
      replace(t, 0);
      return true;
    case Op::APPENDS:
    case Op::SETITEMS:
    case Op::ADDITEMS:
      stack_.resize(pop_mark(t));
      need(t, 1);
      return true;
    case Op::APPEND:
    case Op::BUILD:
      need(t, 2);
      built_global_ = t.op == Op::BUILD && stack_[stack_.size() - 2].is_global;
      stack_.pop_back();
      return true;
    case Op::SETITEM:
      need(t, 3);
      stack_.resize(stack_.size() - 2);
      return true;
    case Op::REDUCE:
    case Op::NEWOBJ: replace(t, 2); return true;
    case Op::NEWOBJ_EX: replace(t, 3); return true;
    default: return false;
  }
}

bool ShadowStack::step_memo(const Token& t) {
  switch (t.op) {
    case Op::PUT:
    case Op::BINPUT:
    case Op::LONG_BINPUT: return take_put(t, true), true;
    case Op::MEMOIZE: return take_put(t, false), true;
    case Op::GET:
    case Op::BINGET:
    case Op::LONG_BINGET: return take_get(t), true;
    default: return false;
  }
}

void ShadowStack::step(const Token& t) {
  key_use_.reset();
  got_ = {};
  built_global_ = false;
  if (step_container(t) || step_memo(t)) return;
  switch (t.op) {
    case Op::PROTO:
      if (t.integer > 5) fail(ProblemId::pickle_protocol, at_offset(*place_, t.offset), std::to_string(t.integer), "at most 5");
      return;
    case Op::FRAME: return;
    case Op::STOP:
      need(t, 1);
      // Readers of pickles drop leftover values. Spliced into another pickle, they would become part of its values.
      if (stack_.size() > 1 || !marks_.empty()) {
        fail(ProblemId::pickle_leftover, at_offset(*place_, t.offset),
             std::to_string(stack_.size()) + " values and " + std::to_string(marks_.size()) + " marks", "one value");
      }
      return;
    case Op::MARK:
      if (marks_.size() >= limits_->pickle_depth) {
        fail(ProblemId::over_limit, at_offset(*place_, t.offset), "containers nested " + std::to_string(marks_.size() + 1) + " deep",
             "at most " + std::to_string(limits_->pickle_depth));
      }
      marks_.push_back(stack_.size());
      return;
    case Op::POP:
      if (stack_.size() == floor() && !marks_.empty()) return marks_.pop_back();
      need(t, 1);
      stack_.pop_back();
      return;
    case Op::POP_MARK: return stack_.resize(pop_mark(t));
    case Op::DUP: {
      need(t, 1);
      // One push must not serve both as a key and as data, so neither copy can be a key.
      if (storage_ids_ == StorageIds::kChecked) stack_.back() = {.push = stack_.back().push};
      const Shadow copy = stack_.back();
      stack_.push_back(copy);
      return;
    }
    case Op::BINPERSID: return take_persistent_id(t);
    case Op::STACK_GLOBAL: return take_stack_global(t);
    case Op::INST: stack_.resize(pop_mark(t)); return replace(t, 0);
    case Op::GLOBAL:
      module_ = t.text;
      name_ = t.name;
      replace(t, 0);
      stack_.back().is_global = true;
      return;
    case Op::READONLY_BUFFER: return;
    case Op::STRING:
    case Op::UNICODE:
    case Op::SHORT_BINUNICODE:
    case Op::BINUNICODE:
    case Op::BINUNICODE8:
    case Op::SHORT_BINSTRING:
    case Op::BINSTRING: return push_literal(t);
    default: return replace(t, 0);
  }
}

}  // namespace dcp
