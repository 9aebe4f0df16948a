#include "pickle/graph.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <optional>

#include "base/text.h"

namespace dcp {
namespace {

// The first `max` bytes, fewer where that would cut a UTF-8 sequence.
std::string_view clipped(std::string_view text, uint64_t max) {
  if (text.size() <= max) return text;
  size_t end = max;
  while (end > 0 && (static_cast<uint8_t>(text[end]) & 0xc0) == 0x80) --end;
  return text.substr(0, end);
}

}  // namespace

PickleGraph::PickleGraph(Bytes pickle, const Place& place, const Limits& limits, const Persistent& persistent)
    : place_(place), limits_(limits), machine_(pickle, place_, limits_), globals_{{"", "persistent"}} {
  Handler handler{&globals_, persistent};
  root_ = machine_.run(handler);
}

Value PickleGraph::Handler::global(PickleMachine&, std::string_view module, std::string_view name) {
  globals->emplace_back(module, name);
  return {.kind = Kind::kGlobal, .n = static_cast<uint32_t>(globals->size() - 1)};
}

Value PickleGraph::Handler::new_object(PickleMachine& m, const Value& cls, const Value& arguments, const Value& keywords) {
  Value object = m.object(cls, arguments);
  object.tag = static_cast<uint16_t>(CallForm::kNew);
  if (keywords.kind == Kind::kUnset) return object;
  object = m.object(object, keywords);
  object.tag = static_cast<uint16_t>(CallForm::kNewKeywords);
  return object;
}

std::pair<std::string_view, std::string_view> PickleGraph::global(const Value& v) const {
  if (v.kind != Kind::kGlobal || v.n == kPersistent) return {};
  return globals_[v.n];
}

std::string PickleGraph::global_of(const Value& v) const {
  Value callable = v.kind == Kind::kObject ? machine_.callable_of(v) : v;
  if (v.kind == Kind::kObject && v.tag == static_cast<uint16_t>(CallForm::kNewKeywords)) callable = machine_.callable_of(callable);
  if (callable.kind != Kind::kGlobal || callable.n == kPersistent) return {};
  const auto& [module, name] = globals_[callable.n];
  return std::string(module) + "." + std::string(name);
}

bool PickleGraph::is_persistent(const Value& v) const {
  if (v.kind != Kind::kObject) return false;
  const Value callable = machine_.callable_of(v);
  return callable.kind == Kind::kGlobal && callable.n == kPersistent;
}

void PickleGraph::visit(const std::function<void(const Value&)>& fn) const {
  std::vector<bool> seen;
  visit(root_, seen, fn);
}

void PickleGraph::visit(const Value& from, std::vector<bool>& seen, const std::function<void(const Value&)>& fn) const {
  seen.resize(machine_.arena_cells());  // by the first cell
  std::vector<Value> todo{from};
  while (!todo.empty()) {
    const Value v = todo.back();
    todo.pop_back();
    const bool has_cells = v.in_arena() && !(v.kind == Kind::kTuple && v.n == 0);
    if (has_cells && seen[v.payload]) continue;
    if (has_cells) seen[v.payload] = true;
    fn(v);
    if (!has_cells) continue;
    // Pushed in order, then reversed, so that they are popped in order.
    const size_t first = todo.size();
    if (v.kind == Kind::kObject) {
      todo.push_back(machine_.callable_of(v));
      todo.push_back(machine_.arguments_of(v));
    }
    for (const Value& item : machine_.items(v)) todo.push_back(item);
    if (v.kind == Kind::kObject && machine_.state_of(v).kind != Kind::kUnset) todo.push_back(machine_.state_of(v));
    std::reverse(todo.begin() + static_cast<ptrdiff_t>(first), todo.end());
  }
}

namespace {

constexpr uint64_t kMaxShownInteger = 128;  // bytes; the time to turn one into digits grows with the square of its length

// `bytes` is an integer in two's complement, little-endian.
std::string decimal_text(std::string_view bytes) {
  constexpr uint32_t kGroup = 1'000'000'000;
  const bool negative = (static_cast<unsigned char>(bytes.back()) & 0x80) != 0;
  std::vector<uint32_t> groups{0};  // of nine digits, the lowest first; of a negative number's complement, its magnitude - 1
  for (size_t i = bytes.size(); i-- > 0;) {
    uint64_t carry = static_cast<unsigned char>(bytes[i]) ^ (negative ? 0xffu : 0u);
    for (uint32_t& group : groups) {
      carry += uint64_t{group} << 8;
      group = static_cast<uint32_t>(carry % kGroup);
      carry /= kGroup;
    }
    if (carry > 0) groups.push_back(static_cast<uint32_t>(carry));
  }
  for (size_t g = 0; negative; ++g) {
    if (g == groups.size()) groups.push_back(0);
    if (++groups[g] < kGroup) break;
    groups[g] = 0;
  }
  std::string text = (negative ? "-" : "") + std::to_string(groups.back());
  for (size_t g = groups.size() - 1; g-- > 0;) {
    const std::string digits = std::to_string(groups[g]);
    text.append(9 - digits.size(), '0') += digits;
  }
  return text;
}

}  // namespace

std::string PickleGraph::scalar_repr(const Value& v, const ReprCaps& caps) const {
  switch (v.kind) {
    case Kind::kText: {
      const std::string_view text = machine_.text(v);
      return "'" + escaped(clipped(text, caps.text)) + (text.size() > caps.text ? "'..." : "'");
    }
    case Kind::kBytes: return "<" + std::to_string(v.n) + " bytes>";
    case Kind::kBig: return v.n > kMaxShownInteger ? "<" + machine_.describe(v) + ">" : decimal_text(machine_.text(v));
    case Kind::kFloat: {
      const auto number = std::bit_cast<double>(v.payload);
      return std::isnan(number) ? "nan" : std::isinf(number) ? (number < 0 ? "-inf" : "inf") : python_float(number);
    }
    case Kind::kGlobal: return global_of(v);
    default: return machine_.describe(v);
  }
}

namespace {

// A container or object that is being written: what is left of it, and how it ends.
struct Open {
  PickleMachine::Items items;
  std::string_view close;
  bool pairs = false;
  std::optional<Value> arguments_of = {};  // these are the arguments of an object: its items and its state follow
  std::optional<Value> items_of = {};      // these are what was appended to or set on it: its state follows
  uint64_t written = 0;
};

class Repr {
 public:
  Repr(const PickleGraph& graph, const ReprCaps& caps, std::string& out) : graph_(graph), m_(graph.machine()), caps_(caps), out_(out) {}

  // Writes all of a scalar, or the beginning of a container.
  void start(Value v) {
    // A loop, because ids nested in ids must not cause recursion.
    while (graph_.is_persistent(v) && out_.size() <= caps_.length) {
      out_ += "persistent ";
      v = m_.arguments_of(v);
    }
    if (!v.in_arena() || v.kind == Kind::kOpen) {
      out_ += graph_.scalar_repr(v, caps_);
    } else if (open_.size() >= caps_.depth) {
      out_ += "...";
    } else if (v.kind == Kind::kObject) {
      const std::string name = graph_.global_of(v);
      out_ += (name.empty() ? "object" : name) + "(";
      const bool keywords = v.tag == static_cast<uint16_t>(CallForm::kNewKeywords);  // which are not shown
      open_.push_back({.items = m_.items(m_.arguments_of(keywords ? m_.callable_of(v) : v)), .close = ")", .arguments_of = v});
    } else {
      const bool dict = v.kind == Kind::kDict;
      const bool list = v.kind == Kind::kList;
      out_ += list ? "[" : v.kind == Kind::kTuple ? "(" : "{";
      const std::string_view close = list ? "]" : v.kind == Kind::kTuple ? (v.n == 1 ? ",)" : ")") : "}";
      open_.push_back({.items = m_.items(v), .close = close, .pairs = dict});
    }
  }

  // Returns false when nothing is left.
  bool step() {
    if (open_.empty()) return false;
    Open& top = open_.back();
    Value item;
    if (top.items.next(item)) {
      if (top.written > 0) out_ += top.pairs && top.written % 2 == 1 ? ": " : ", ";
      ++top.written;
      start(item);
      return true;
    }
    out_ += top.close;
    const Open done = top;
    open_.pop_back();
    if (done.arguments_of) after_arguments(*done.arguments_of);
    else if (done.items_of) write_state(*done.items_of);
    return true;
  }

 private:
  void after_arguments(const Value& object) {
    auto first = m_.items(object);
    Value item;
    if (!first.next(item)) return write_state(object);
    const bool pairs = first.in_pair();
    out_ += pairs ? "{" : "[";
    open_.push_back({.items = m_.items(object), .close = pairs ? "}" : "]", .pairs = pairs, .items_of = object});
  }
  void write_state(const Value& object) {
    const Value state = m_.state_of(object);
    if (state.kind == Kind::kUnset || state.kind == Kind::kNil) return;
    out_ += " with ";
    start(state);
  }

  const PickleGraph& graph_;
  const PickleMachine& m_;
  const ReprCaps& caps_;
  std::string& out_;
  std::vector<Open> open_;
};

}  // namespace

std::string PickleGraph::repr(const Value& v, const ReprCaps& caps) const {
  std::string out;
  Repr repr(*this, caps, out);
  for (repr.start(v); out.size() <= caps.length && repr.step();) {
  }
  return out.size() > caps.length ? std::string(clipped(out, caps.length)) + "..." : out;
}

}  // namespace dcp
