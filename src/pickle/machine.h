// The one stack machine that reads pickles. It never imports, calls or builds anything: a handler decides what a global, a call or a state
// means. A handler is a plain class with these members. Each of them is passed the machine, through which it reads values:
//
//   Value global(PickleMachine&, std::string_view module, std::string_view name)   kGlobal with an id of the handler's, or a kTyped
//   Value reduce(PickleMachine&, Value callable, Value arguments)                  kTyped, kOpaque, machine.object(...), or the like
//   Value new_object(PickleMachine&, Value cls, Value arguments, Value keywords)   machine.open(...), kTyped, kOpaque, machine.object(...)
//   Value build(PickleMachine&, Value object, Value state)                         what the object is, now that it has a state
//   Value persistent(PickleMachine&, Value id)
//   void refused(PickleMachine&, Op)                                               optional: an opcode that weights_only stops at
//
// `callable` and `cls` are kGlobal or kObject, `arguments` a kTuple, `keywords` a kDict or kUnset, `object` a kOpen, kTyped or kObject. A
// kOpaque callable or object never reaches the handler: anything made from it stays opaque.
//
// Memory. Containers lie in a bump arena; lists and dicts are chains of segments, one per APPENDS or SETITEMS batch. When a handler turns
// an object and its state into a kTyped value (by copying what it needs into its own pools), the arena rolls back to where the object
// began. That is sound because values refer downwards (older) only, with two exceptions, which raise `pin_`, below which nothing is rolled
// back: a value kept in the memo or doubled by DUP, and an append to a container below the pin. A container that was not shared lies above
// the start of every unfinished object below it on the stack, so whatever is appended to it is freed with it. An object that BUILD reaches
// through the memo does not roll back: newer values may lie below it on the stack. Marks have a stack of their own: no opcode can mistake
// one for a value.
#pragma once

#include <algorithm>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "base/limits.h"
#include "base/problem.h"
#include "pickle/memo.h"
#include "pickle/tokens.h"
#include "pickle/value.h"
#include "pickle/weights_only.h"

namespace dcp {

class PickleMachine {
 public:
  // All must outlive the machine. Not thread-safe.
  PickleMachine(Bytes pickle, const Place& place, const Limits& limits);

  // Runs to STOP and returns the root; bytes after it are ignored. Throws Error (pickle_*, over_limit, or what the handler throws).
  template <class Handler>
  Value run(Handler& handler);

  // --- reading values
  uint64_t pickle_bytes() const { return pickle_.size(); }
  uint64_t trailing_bytes() const { return pickle_.size() - reader_.position(); }  // after the run: what follows STOP
  std::string_view text(const Value& v) const {                                    // of kText, kBytes, kBig
    return {reinterpret_cast<const char*>(pickle_.data()) + v.payload, v.n};
  }
  bool is_text(const Value& v, std::string_view wanted) const { return v.kind == Kind::kText && text(v) == wanted; }
  Value element(const Value& tuple, uint32_t i) const { return final(arena_[tuple.payload + i]); }
  std::span<const Value> elements(const Value& tuple) const {
    return arena_.range(tuple.payload, tuple.n);
  }  // each to be passed to final()
  // Resolves an object that was unfinished when it was stored: itself, or what BUILD turned it into.
  Value final(const Value& v) const {
    if (v.kind != Kind::kOpen || arena_[v.payload].kind == Kind::kUnset) return v;
    return arena_[v.payload];
  }
  Value callable_of(const Value& object) const { return arena_[object.payload]; }  // of a kObject
  Value arguments_of(const Value& object) const { return arena_[object.payload + 1]; }
  Value state_of(const Value& object) const { return arena_[object.payload + 2]; }  // kUnset: never built

  // Iterates, in order, over the elements of a tuple, list or set, the keys and values of a dict, or what was appended to or set on an
  // object.
  class Items {
   public:
    bool next(Value& out) {
      while (at_ == end_) {
        if (next_segment_ == kNowhere) return false;
        enter(next_segment_);
      }
      out = machine_->final(machine_->arena_[at_++]);
      return true;
    }

    // for (const Value& v : items(list))
    struct End {};
    Items begin() { return ++*this; }
    End end() const { return {}; }
    const Value& operator*() const { return value_; }
    Items& operator++() {
      is_over_ = !next(value_);
      return *this;
    }
    bool operator!=(End) const { return !is_over_; }

    // Whether the last value came from SETITEM(S): on an object, where APPEND(S) is possible too.
    bool in_pair() const { return in_pair_; }

   private:
    friend class PickleMachine;
    explicit Items(const PickleMachine* machine) : machine_(machine) {}
    void enter(uint64_t segment) {
      const Value& head = machine_->arena_[segment];
      at_ = segment + 1;
      end_ = at_ + head.n;
      next_segment_ = head.payload;
      in_pair_ = head.tag != 0;
    }
    const PickleMachine* machine_;
    uint64_t at_ = 0;
    uint64_t end_ = 0;
    uint64_t next_segment_ = kNowhere;
    bool in_pair_ = false, is_over_ = false;
    Value value_{};
  };
  Items items(const Value& container) const;
  uint64_t count(const Value& container) const;  // values that items() gives: twice the entries of a dict

  // "None", "7", "text 'abc'", "a tuple of 2", "a dict", "an object": for messages.
  std::string describe(const Value& v) const;

  // --- making values, for handlers
  // An unfinished object. One of an unknown class is opaque until BUILD: what is set on it or called with it is ignored.
  Value open(uint32_t class_id, bool is_known = true);
  Value object(Value callable, Value arguments);
  void set_state(const Value& object, const Value& state) {
    arena_[object.payload + 2] = state;
    grown(object.payload);
  }

  Value tuple(std::span<const Value> elements);
  Value dict() { return make_chain(Kind::kDict); }  // an empty dict, for objects that are dicts

  // The first text, or name of a GLOBAL, that CPython cannot read: why, and the place of its opcode. nullopt: it can read all.
  struct BadText {
    Place place;
    std::string got;
  };
  const std::optional<BadText>& bad_text() const { return bad_text_; }

  uint64_t arena_cells() const { return arena_.size(); }  // in use now, 16 bytes each

  // --- for messages
  std::span<const Value> stack() const { return stack_.range(0, stack_.size()); }
  Place place() const { return at_offset(*place_, token_.offset); }  // of the opcode being run
  [[noreturn]] void fail_operand(const Value& got, std::string_view expected) const;

 private:
  static constexpr uint64_t kNowhere = ~uint64_t{0};
  static constexpr uint64_t kObjectChain = 3;         // cells of an object before its chain
  static constexpr uint16_t kKept = 1, kForeign = 2;  // tags of a kOpen
  static bool is_opaque(const Value& v) { return v.kind == Kind::kOpaque || (v.kind == Kind::kOpen && (v.tag & kForeign) != 0); }

  // --- the stack
  void need(uint64_t count) const {
    if (stack_.size() - floor_ < count) fail_underflow(count);
  }
  void push(Value v) {  // by value, because the argument may lie in an array that is reallocated
    if (!stack_.has_room(1)) make_room(stack_, arena_, 1);
    stack_.add(v);
  }
  void make_room(Cells& cells, const Cells& others, uint64_t count);
  void push_number(Kind kind, uint64_t payload) { push({.kind = kind, .payload = payload}); }
  void push_view(Kind kind, std::string_view view);
  void push_mark();
  void drop_mark();
  uint64_t pop_mark();  // the stack's size when the mark was pushed
  [[noreturn]] void fail_underflow(uint64_t count) const;
  [[noreturn]] void fail_unset() const;
  [[noreturn]] void fail_memory() const;
  [[noreturn]] void fail_count(uint64_t count) const;
  uint32_t counted(uint64_t count) const {
    if (count > std::numeric_limits<uint32_t>::max()) fail_count(count);
    return static_cast<uint32_t>(count);
  }

  // --- the arena
  Value make_tuple(uint64_t first) {  // of the stack's values beginning at `first`, which are popped
    const Value v{.kind = Kind::kTuple, .n = counted(stack_.size() - first), .payload = arena_.size()};
    move_to_arena(first);
    return v;
  }
  // A chain is a cell: payload is the position of its first segment, tag and n are that of its last one. A segment is a cell {n, next, tag 1:
  // pairs} and its values.
  Value make_chain(Kind kind, uint16_t tag = 0) {
    const Value v{.kind = kind, .tag = tag, .payload = arena_.size()};
    add_to_arena({.payload = kNowhere});
    return v;
  }
  void arena_room(uint64_t count) {
    if (!arena_.has_room(count)) make_room(arena_, stack_, count);
  }
  void add_to_arena(Value v) {
    arena_room(1);
    arena_.add(v);
  }
  void move_to_arena(uint64_t first) {
    const auto moved = stack_.range(first, stack_.size() - first);
    arena_room(moved.size());
    arena_.add(moved);
    stack_.cut(first);
    constexpr uint64_t kLarge = 1 << 16;
    if (stack_.room() > kLarge && stack_.size() < stack_.room() / 4) stack_.set_room(std::max(kLarge, stack_.size()));
  }
  void append(uint64_t chain, uint64_t first, Kind like);  // the stack's values from `first` on, which are popped
  void grown(uint64_t position) {
    if (position < pin_) pin_ = arena_.size();
  }
  void roll_back(uint64_t position) {
    const uint64_t to = std::max(position, pin_);
    if (to >= arena_.size()) return;
    arena_.cut(to);
    if (!number_tuples_.empty()) std::erase_if(number_tuples_, [&](const NumberTuple& t) { return t.value.payload + t.value.n > to; });
  }

  // --- opcodes
  void run_plain(Op op);  // all that need no handler
  template <Op op, class Handler>
  void run_one(Handler& handler);
  void push_scalar();
  void push_text();
  void check_text(std::string_view what, std::string_view text);
  void push_kept(uint64_t slot) {
    Value v = memo_.get(slot);
    if (v.kind == Kind::kUnset) fail_unset();
    v = final(v);
    if (v.kind == Kind::kGlobal) v.payload = arena_.size();
    if (v.kind == Kind::kOpen) v.tag |= kKept;  // newer values may lie below it on the stack: see finish_build
    push(v);
  }
  void memoize_top(bool kept) {
    if (kept && stack_.back().in_arena()) pin_ = arena_.size();
  }
  void push_tuple(uint64_t count) {
    need(count);
    push(make_tuple(stack_.size() - count));
  }
  void collect(Op op);
  void keep_numbers(const Value& tuple);
  bool push_known_numbers();
  void add_items(Kind wanted, uint64_t first);
  void finish_build(const Value& object, const Value& result);
  template <class Handler>
  void run_global(Handler& handler, std::string_view module, std::string_view name);
  template <Op op, class Handler>
  void run_call(Handler& handler);
  template <class Handler>
  void run_build(Handler& handler);

  // A long tuple of numbers, and its opcodes after the MARK. One of the same opcodes is the same: metadata may list the ranks of a job once
  // for each tensor.
  struct NumberTuple {
    uint64_t begin = 0, bytes = 0;
    Value value;
  };

  Bytes pickle_;
  const Place* place_;
  const Limits* limits_;
  TokenReader reader_;
  Token token_;
  Memo memo_;
  Cells stack_;
  std::vector<uint64_t> marks_;  // none above the stack's size
  uint64_t floor_ = 0;           // the last of them, or 0
  Cells arena_;
  uint64_t max_cells_;  // for stack and arena together
  uint64_t pin_ = 0;
  std::optional<BadText> bad_text_;
  uint64_t marked_ = 0;                     // the byte after the last MARK
  std::vector<NumberTuple> number_tuples_;  // the latest ones
};

template <class Handler>
Value PickleMachine::run(Handler& handler) {
  do {
    reader_.visit(token_, [&]<Op op> { run_one<op>(handler); });
  } while (token_.op != Op::STOP);
  need(1);
  return final(stack_.pop());
}

template <Op op, class Handler>
inline void PickleMachine::run_one(Handler& handler) {
  if constexpr (!weights_only_reads(op) && requires { handler.refused(*this, op); }) handler.refused(*this, op);
  if constexpr (op == Op::MEMOIZE) {
    need(1);
    memoize_top(memo_.memoize(stack_.back()));
  } else if constexpr (op == Op::BINGET || op == Op::LONG_BINGET) {
    push_kept(static_cast<uint64_t>(token_.integer));
  } else if constexpr (op == Op::BININT1 || op == Op::BININT2 || op == Op::BININT) {
    push_number(Kind::kInt, static_cast<uint64_t>(token_.integer));
  } else if constexpr (op == Op::MARK) {
    if (number_tuples_.empty() || !push_known_numbers()) push_mark();
  } else if constexpr (op == Op::EMPTY_TUPLE) {
    push_tuple(0);
  } else if constexpr (op == Op::TUPLE1) {
    push_tuple(1);
  } else if constexpr (op == Op::TUPLE2) {
    push_tuple(2);
  } else if constexpr (op == Op::TUPLE3) {
    push_tuple(3);
  } else if constexpr (op == Op::EMPTY_DICT) {
    push(make_chain(Kind::kDict));
  } else if constexpr (op == Op::GLOBAL) {
    check_text("module", token_.text);
    check_text("name", token_.name);
    run_global(handler, token_.text, token_.name);
  } else if constexpr (op == Op::STACK_GLOBAL) {
    need(2);
    const Value name = stack_.pop();
    const Value module = stack_.pop();
    if (module.kind != Kind::kText) fail_operand(module, "a module's name");
    if (name.kind != Kind::kText) fail_operand(name, "a global's name");
    run_global(handler, text(module), text(name));
  } else if constexpr (op == Op::REDUCE || op == Op::NEWOBJ || op == Op::NEWOBJ_EX) {
    run_call<op>(handler);
  } else if constexpr (op == Op::BUILD) {
    run_build(handler);
  } else if constexpr (op == Op::BINPERSID) {
    need(1);
    const Value id = stack_.pop();
    push(handler.persistent(*this, id));
  } else if constexpr (op != Op::STOP) {
    run_plain(op);
  }
}

template <class Handler>
void PickleMachine::run_global(Handler& handler, std::string_view module, std::string_view name) {
  Value v = handler.global(*this, module, name);
  if (v.kind == Kind::kGlobal) v.payload = arena_.size();
  push(v);
}

template <Op op, class Handler>
void PickleMachine::run_call(Handler& handler) {
  constexpr bool has_keywords = op == Op::NEWOBJ_EX;
  need(has_keywords ? 3 : 2);
  const Value keywords = has_keywords ? stack_.pop() : Value{};
  const Value arguments = stack_.pop();
  const Value callable = stack_.pop();
  if (has_keywords && keywords.kind != Kind::kDict) fail_operand(keywords, "a dict of keywords");
  if (is_opaque(callable)) return push({.kind = Kind::kOpaque, .tag = callable.tag, .n = callable.n, .payload = callable.payload});
  if (callable.kind != Kind::kGlobal && callable.kind != Kind::kObject) fail_operand(callable, "a class or function");
  if (arguments.kind != Kind::kTuple) fail_operand(arguments, "a tuple of arguments");
  const Value result =
      op == Op::REDUCE ? handler.reduce(*this, callable, arguments) : handler.new_object(*this, callable, arguments, keywords);
  // A class or function records where the arena ended when it was pushed: everything above belongs to this call.
  if (callable.kind == Kind::kGlobal && !result.in_arena()) roll_back(callable.payload);
  push(result);
}

template <class Handler>
void PickleMachine::run_build(Handler& handler) {
  need(2);
  const Value state = final(stack_.pop());
  const Value object = final(stack_.pop());
  switch (object.kind) {
    case Kind::kOpaque: push(object); break;
    case Kind::kGlobal:
      if constexpr (!requires { handler.build_global(*this, object); }) fail_operand(object, "an object to give a state");
      else handler.build_global(*this, object);
      push(object);
      break;
    case Kind::kOpen:
    case Kind::kTyped:
    case Kind::kObject: finish_build(object, handler.build(*this, object, state)); break;
    default: fail_operand(object, "an object to give a state");
  }
}

}  // namespace dcp
