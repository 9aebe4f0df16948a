#include "pickle/graph_write.h"

#include <bit>
#include <set>
#include <unordered_map>

#include "base/checked.h"
#include "pickle/writer.h"

namespace dcp {
namespace {

// CPython's pickler writes APPENDS and SETITEMS in batches of this size.
constexpr uint64_t kBatch = 1000;

// The identity of a value that may be shared: its position in the arena, the place of its text in the pickle, the number of a global. 0:
// the value has no identity and is written out each time.
uint64_t identity(const Value& v) {
  constexpr uint64_t kText = 1, kName = 2, kCells = 3;
  const auto made = [](uint64_t space, uint64_t id) { return id << 2 | space; };
  switch (v.kind) {
    case Kind::kText:
    case Kind::kBytes:
    case Kind::kBig: return v.n < 8 ? 0 : made(kText, v.payload);
    case Kind::kGlobal: return made(kName, v.n);
    case Kind::kTuple: return v.n == 0 ? 0 : made(kCells, v.payload);
    default: return v.in_arena() ? made(kCells, v.payload) : 0;
  }
}

class ValueWriter {
 public:
  ValueWriter(const PickleGraph& graph, const Place& place, uint64_t cap)
      : graph_(graph), m_(graph.machine()), place_(place), cap_(cap), out_(text_, PickleProtocol::k2) {}

  WrittenValue run(const Value& root) {
    count(root);
    out_.begin();
    start(root);
    while (!open_.empty()) step();
    out_.end();
    return {std::move(text_), {keys_.begin(), keys_.end()}};
  }

 private:
  // A container or call whose parts are being written.
  struct Open {
    enum class Part : uint8_t { kCallable, kArguments, kKeywords, kItems, kState, kEnd };
    Value v;
    Part part = Part::kItems;
    PickleMachine::Items items;
    uint64_t in_batch = 0;      // values since the last MARK
    bool pairs = false;         // of that batch
    bool has_keywords = false;  // written
  };
  using Part = Open::Part;

  // Counts how often each value occurs: those that occur more than once get a memo slot.
  void count(const Value& root) {
    std::vector<Value> todo{root};
    while (!todo.empty()) {
      const Value v = todo.back();
      todo.pop_back();
      if (graph_.is_persistent(v)) continue;
      if (const uint64_t id = identity(v); id != 0 && ++uses_[id] > 1) continue;
      if (v.kind == Kind::kObject) {
        todo.push_back(m_.callable_of(v));
        todo.push_back(m_.arguments_of(v));
        if (m_.state_of(v).kind != Kind::kUnset) todo.push_back(m_.state_of(v));
      }
      if (v.in_arena())
        for (const Value& item : m_.items(v)) todo.push_back(item);
    }
  }

  bool from_memo(const Value& v) {
    const auto slot = slots_.find(identity(v));
    if (slot == slots_.end()) return false;
    out_.get(slot->second);
    return true;
  }
  void memoize(const Value& v) {
    const uint64_t id = identity(v);
    // A mutable value always gets a slot, because a cycle must lead through one.
    const bool is_mutable = v.in_arena() && v.kind != Kind::kTuple;
    const auto used = uses_.find(id);
    if (id != 0 && (is_mutable || (used != uses_.end() && used->second > 1))) slots_.try_emplace(id, out_.put());
  }

  // Writes all of a scalar, or the beginning of a container.
  void start(const Value& v) {
    if (text_.size() > cap_) fail(ProblemId::over_limit, place_, "an object whose pickle has more than " + std::to_string(cap_) + " bytes");
    if (graph_.is_persistent(v)) return persistent(v);
    if (from_memo(v)) return;
    switch (v.kind) {
      case Kind::kTuple:
        if (v.n == 0) return out_.tuple(0);
        if (v.n > 3) out_.op(Op::MARK);
        return open(v, Part::kItems);
      case Kind::kList:
      case Kind::kDict:
        out_.op(v.kind == Kind::kList ? Op::EMPTY_LIST : Op::EMPTY_DICT);
        memoize(v);
        return open(v, Part::kItems);
      case Kind::kSet:
        out_.op(v.tag == 0 ? Op::EMPTY_SET : Op::MARK);
        if (v.tag == 0) memoize(v);
        return open(v, Part::kItems);
      case Kind::kObject: return open(v, Part::kCallable);
      default: scalar(v); memoize(v);
    }
  }
  void open(const Value& v, Part part) { open_.push_back({.v = v, .part = part, .items = m_.items(v)}); }

  void step() {
    Open& top = open_.back();
    const Value v = top.v;
    switch (top.part) {
      case Part::kCallable:
        top.part = Part::kArguments;
        return start(form(v) == CallForm::kNewKeywords ? m_.callable_of(m_.callable_of(v)) : m_.callable_of(v));
      case Part::kArguments:
        top.part = Part::kKeywords;
        return start(form(v) == CallForm::kNewKeywords ? m_.arguments_of(m_.callable_of(v)) : m_.arguments_of(v));
      case Part::kKeywords:
        if (form(v) == CallForm::kNewKeywords && !std::exchange(top.has_keywords, true)) return start(m_.arguments_of(v));
        return called(top);
      case Part::kItems: return item(top);
      case Part::kState:
        top.part = Part::kEnd;
        if (m_.state_of(v).kind == Kind::kUnset) return;
        return start(m_.state_of(v));
      case Part::kEnd:
        if (m_.state_of(v).kind != Kind::kUnset) out_.op(Op::BUILD);
        open_.pop_back();
    }
  }
  static CallForm form(const Value& v) { return static_cast<CallForm>(v.tag); }

  // Called once callable and arguments are written. If they contain the object itself, it has been written by then.
  void called(Open& top) {
    constexpr Op kOps[] = {Op::REDUCE, Op::NEWOBJ, Op::NEWOBJ_EX};
    out_.op(kOps[top.v.tag]);
    if (slots_.contains(identity(top.v))) {
      out_.op(Op::POP);
      from_memo(top.v);
      open_.pop_back();
      return;
    }
    memoize(top.v);
    top.part = Part::kItems;
  }

  // The next element, or the end of the container.
  void item(Open& top) {
    Value next;
    const bool more = top.items.next(next);
    const Kind kind = top.v.kind;
    const bool pairs = kind == Kind::kDict || (kind == Kind::kObject && top.items.in_pair());
    const bool batched = kind == Kind::kList || kind == Kind::kDict || kind == Kind::kObject || (kind == Kind::kSet && top.v.tag == 0);
    if (batched && top.in_batch > 0 && (!more || top.in_batch == kBatch * 2 || pairs != top.pairs)) {
      out_.op(kind == Kind::kSet ? Op::ADDITEMS : top.pairs ? Op::SETITEMS : Op::APPENDS);
      top.in_batch = 0;
    }
    if (!more) return finish(top);
    if (batched && top.in_batch == 0) {
      out_.op(Op::MARK);
      top.pairs = pairs;
    }
    ++top.in_batch;
    start(next);
  }

  void finish(Open& top) {
    const Value v = top.v;
    if (v.kind == Kind::kObject) {
      top.part = Part::kState;
      return;
    }
    open_.pop_back();
    if (v.kind == Kind::kSet && v.tag != 0) {
      out_.op(Op::FROZENSET);
      memoize(v);
    }
    if (v.kind == Kind::kTuple) tuple_done(v);
  }
  // A tuple that a list inside it contains was already finished there.
  void tuple_done(const Value& v) {
    if (!slots_.contains(identity(v))) {
      if (v.n > 3) out_.op(Op::TUPLE);
      else out_.tuple(v.n);
      return memoize(v);
    }
    if (v.n > 3) out_.op(Op::POP_MARK);
    for (uint32_t i = 0; v.n <= 3 && i < v.n; ++i) out_.op(Op::POP);
    from_memo(v);
  }

  void scalar(const Value& v) {
    switch (v.kind) {
      case Kind::kNil: return out_.op(Op::NONE);
      case Kind::kBool: return out_.boolean(v.payload != 0);
      case Kind::kInt: return out_.integer(v.integer());
      case Kind::kFloat: return out_.real(std::bit_cast<double>(v.payload));
      case Kind::kText: return out_.text(m_.text(v));
      case Kind::kBytes: return counted(v.tag == 0 ? Op::BINBYTES : Op::BYTEARRAY8, v.tag == 0 ? 4 : 8, m_.text(v));
      case Kind::kBig: return counted(v.n < 256 ? Op::LONG1 : Op::LONG4, v.n < 256 ? 1 : 4, m_.text(v));
      case Kind::kGlobal: {
        const auto [module, name] = graph_.global(v);
        return out_.global(module, name);
      }
      default: fail(ProblemId::internal, place_, "a value of a graph that is none");
    }
  }
  void counted(Op op, unsigned length_bytes, std::string_view bytes) {
    std::string length(sizeof(uint64_t), '\0');
    store_le(reinterpret_cast<std::byte*>(length.data()), uint64_t{bytes.size()});
    out_.op(op);
    out_.raw(std::string_view(length).substr(0, length_bytes));
    out_.raw(bytes);
  }

  // ("storage", class, key, location, count)
  void persistent(const Value& v) {
    const Value id = m_.arguments_of(v);
    constexpr Kind kParts[] = {Kind::kText, Kind::kGlobal, Kind::kText, Kind::kText, Kind::kInt};
    bool is_storage = id.kind == Kind::kTuple && id.n == 5;
    for (uint32_t i = 0; is_storage && i < 5; ++i) is_storage = m_.element(id, i).kind == kParts[i];
    if (!is_storage || !m_.is_text(m_.element(id, 0), "storage"))
      fail(ProblemId::pickle_storage_id, place_, m_.describe(id), "('storage', class, key, location, count)");
    keys_.emplace(m_.text(m_.element(id, 2)));
    out_.op(Op::MARK);
    for (uint32_t i = 0; i < 5; ++i) scalar(m_.element(id, i));
    out_.op(Op::TUPLE);
    out_.op(Op::BINPERSID);
  }

  const PickleGraph& graph_;
  const PickleMachine& m_;
  const Place& place_;
  const uint64_t cap_;
  std::string text_;
  PickleWriter out_;
  std::unordered_map<uint64_t, uint32_t> uses_;
  std::unordered_map<uint64_t, uint64_t> slots_;
  std::vector<Open> open_;
  std::set<std::string, std::less<>> keys_;
};

}  // namespace

WrittenValue write_value(const PickleGraph& graph, const Value& value, const Place& place, uint64_t cap) {
  return ValueWriter(graph, place, cap).run(value);
}

}  // namespace dcp
