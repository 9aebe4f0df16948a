#include "report/object_text.h"

#include <algorithm>
#include <bit>
#include <charconv>
#include <cmath>
#include <optional>
#include <vector>

#include "base/text.h"

namespace dcp::cmd {
namespace {

constexpr size_t kMaxDepth = 200;

// Where a walk is: containers and objects that it is in.
class Walk {
 public:
  // False: it is inside itself, or too deep.
  bool enter(const Value& v) {
    if (path_.size() >= kMaxDepth || std::ranges::find(path_, v.payload) != path_.end()) return false;
    path_.push_back(v.payload);
    return true;
  }
  void leave() { path_.pop_back(); }

 private:
  std::vector<uint64_t> path_;
};

bool is_container(const Value& v) { return v.in_arena() && v.kind != Kind::kOpen; }

// The callable's own arguments, and keywords after them if it has some.
Value arguments_of(const PickleMachine& m, const Value& object) {
  const bool keywords = object.tag == static_cast<uint16_t>(CallForm::kNewKeywords);
  return m.arguments_of(keywords ? m.callable_of(object) : object);
}

// As Python's repr: what is in quotes can be read back.
std::string quoted(std::string_view text) {
  std::string out = "'";
  while (!text.empty()) {
    const size_t plain = std::min(text.find_first_of("\\'\n\r\t"), text.size());
    out += escaped(text.substr(0, plain));
    text.remove_prefix(plain);
    if (text.empty()) break;
    const char c = text.front();
    out += c == '\n' ? "\\n" : c == '\r' ? "\\r" : c == '\t' ? "\\t" : std::string("\\") + c;
    text.remove_prefix(1);
  }
  return out + "'";
}

// Protocol 2 has no bytes: Python writes them as _codecs.encode(text, 'latin1'), where each character is a byte.
std::optional<std::string> bytes_in_text(const PickleGraph& graph, const Value& v) {
  const PickleMachine& m = graph.machine();
  if (v.kind != Kind::kObject || graph.global_of(v) != "_codecs.encode") return std::nullopt;
  const Value arguments = m.arguments_of(v);
  if (arguments.kind != Kind::kTuple || arguments.n != 2 || !m.is_text(m.element(arguments, 1), "latin1")) return std::nullopt;
  const Value of = m.element(arguments, 0);
  if (of.kind != Kind::kText) return std::nullopt;
  const std::string_view text = m.text(of);
  std::string bytes;
  for (size_t i = 0; i < text.size(); ++i) {
    const auto c = static_cast<uint8_t>(text[i]);
    if (c < 0x80) bytes += static_cast<char>(c);
    else if ((c == 0xC2 || c == 0xC3) && i + 1 < text.size())
      bytes += static_cast<char>(((c & 3) << 6) | (static_cast<uint8_t>(text[++i]) & 0x3F));
    else return std::nullopt;
  }
  return bytes;
}

std::string hex_of(std::string_view bytes) {
  std::string text;
  for (const char c : bytes) text += hex(static_cast<uint8_t>(c), 2);
  return text;
}

std::string bytes_text(std::string_view bytes) {
  std::string text = "b'";
  for (const char c : bytes) {
    if (c == '\\' || c == '\'') text += std::string("\\") + c;
    else if (c >= ' ' && c <= '~') text += c;
    else text += "\\x" + hex(static_cast<uint8_t>(c), 2);
  }
  return text + "'";
}

class Text {
 public:
  Text(const PickleGraph& graph, size_t columns, const PrintBound& bound)
      : graph_(graph), m_(graph.machine()), columns_(columns), bound_(bound) {}

  std::string print() {
    value(graph_.root(), 0);
    return std::move(out_) + "\n";
  }

 private:
  // In one line if it fits there; else its parts in lines of their own.
  void value(const Value& v, size_t indent) {
    if (end_ == std::string::npos && is_container(v)) {
      const size_t begin = out_.size(), line = out_.rfind('\n') + 1;  // 0 where there is none
      end_ = line + columns_ - 1;                                     // a comma may follow
      parts(v, indent);
      const bool fits = out_.size() <= end_;
      end_ = std::string::npos;
      if (fits) return;
      out_.resize(begin);
    }
    parts(v, indent);
  }
  bool in_line() const { return end_ != std::string::npos; }
  // More than a line: each container around it would make a line of it in vain.
  bool is_long(const Value& v) const {
    if (v.kind == Kind::kText || v.kind == Kind::kBytes) return m_.text(v).size() > columns_;
    if (v.kind != Kind::kObject) return false;
    const Value arguments = m_.arguments_of(v);
    if (arguments.kind != Kind::kTuple || arguments.n == 0) return false;
    const Value first = m_.element(arguments, 0);
    return first.kind == Kind::kText && m_.text(first).size() > 4 * columns_;  // of bytes, each up to two of the text
  }
  bool is_over() const { return in_line() && out_.size() > end_; }

  void parts(const Value& v, size_t indent) {
    if (is_over()) return;
    if (in_line() && is_long(v)) {
      out_.append(columns_, ' ');  // it does not fit: what it looks like need not be known
      return;
    }
    if (out_.size() > bound_.bytes) bound_.fail();
    if (const std::optional<std::string> bytes = bytes_in_text(graph_, v)) {
      out_ += bytes_text(*bytes);
    } else if (!is_container(v)) {
      scalar(v);
    } else if (!walk_.enter(v)) {
      out_ += "...";
    } else {
      if (v.kind == Kind::kObject) object(v, indent);
      else items(v, v.kind == Kind::kList ? "[]" : v.kind == Kind::kTuple ? "()" : "{}", v.kind == Kind::kDict, indent);
      walk_.leave();
    }
  }

  void scalar(const Value& v) {
    if (v.kind == Kind::kText) out_ += quoted(m_.text(v));
    else if (v.kind == Kind::kBytes) out_ += bytes_text(m_.text(v));
    else out_ += graph_.scalar_repr(v, {});
  }

  void items(const Value& v, std::string_view brackets, bool pairs, size_t indent, bool call = false) {
    if (v.kind == Kind::kSet && m_.count(v) == 0) {
      out_ += "set()";
      return;
    }
    out_ += brackets[0];
    PickleMachine::Items items = m_.items(v);
    const std::string between = in_line() ? " " : "\n" + std::string(indent + 2, ' ');
    uint64_t n = 0;
    for (Value item; !is_over() && items.next(item); ++n) {
      if (pairs && n % 2 == 1) out_ += ": ";
      else out_ += n > 0 ? "," + between : in_line() ? "" : between;
      value(item, indent + 2);
    }
    if (v.kind == Kind::kTuple && n == 1 && !call) out_ += ",";
    if (n > 0 && !in_line()) out_ += "\n" + std::string(indent, ' ');
    out_ += brackets[1];
  }

  void object(const Value& v, size_t indent) {
    if (graph_.is_persistent(v)) {
      out_ += "persistent ";
      return value(m_.arguments_of(v), indent);
    }
    const std::string name = graph_.global_of(v);
    out_ += name.empty() ? "object" : escaped(name);
    items(arguments_of(m_, v), "()", false, indent, true);
    PickleMachine::Items first = m_.items(v);
    if (Value item; first.next(item)) items(v, first.in_pair() ? "{}" : "[]", first.in_pair(), indent);
    const Value state = m_.state_of(v);
    if (state.kind == Kind::kUnset || state.kind == Kind::kNil) return;
    out_ += " with ";
    value(state, indent);
  }

  const PickleGraph& graph_;
  const PickleMachine& m_;
  const size_t columns_;
  const PrintBound& bound_;
  size_t end_ = std::string::npos;  // in out_: what is tried in one line must not reach beyond it
  Walk walk_;
  std::string out_;
};

class Json {
 public:
  Json(const PickleGraph& graph, JsonWriter& out) : graph_(graph), m_(graph.machine()), out_(out) {}

  void value(const Value& v) {
    if (const std::optional<std::string> bytes = bytes_in_text(graph_, v)) {
      out_.begin_object().member("$bytes", hex_of(*bytes)).end_object();
      return;
    }
    if (!is_container(v)) return scalar(v);
    if (!walk_.enter(v)) {
      out_.value("$cycle");
      return;
    }
    if (v.kind == Kind::kObject) object(v);
    else if (v.kind == Kind::kDict) dict(v);
    else list(v);
    walk_.leave();
  }

 private:
  void scalar(const Value& v) {
    switch (v.kind) {
      case Kind::kNil: out_.null(); return;
      case Kind::kBool: out_.value(v.payload != 0); return;
      case Kind::kInt: out_.value(v.integer()); return;
      case Kind::kText: out_.value(m_.text(v)); return;
      case Kind::kBytes: out_.begin_object().member("$bytes", hex_of(m_.text(v))).end_object(); return;
      case Kind::kGlobal: out_.begin_object().member("$global", graph_.global_of(v)).end_object(); return;
      case Kind::kFloat: {
        const auto number = std::bit_cast<double>(v.payload);
        if (std::isnan(number)) out_.value("NaN");
        else if (std::isinf(number)) out_.value(number < 0 ? "-Infinity" : "Infinity");
        else out_.value(number);
        return;
      }
      case Kind::kBig: {
        const std::string text = graph_.scalar_repr(v, {});
        if (text.starts_with('<')) out_.value(text);
        else out_.digits(text);
        return;
      }
      default: out_.value(graph_.scalar_repr(v, {})); return;
    }
  }

  void list(const Value& v) {
    out_.begin_array();
    PickleMachine::Items items = m_.items(v);
    for (Value item; items.next(item);) value(item);
    out_.end_array();
  }

  // Whether all keys are of that kind.
  bool has_keys(const Value& v, Kind kind) const {
    PickleMachine::Items items = m_.items(v);
    uint64_t n = 0;
    for (Value item; items.next(item); ++n)
      if (n % 2 == 0 && item.kind != kind) return false;
    return true;
  }

  void dict(const Value& v) {
    PickleMachine::Items items = m_.items(v);
    Value key, of;
    if (!has_keys(v, Kind::kText) && !has_keys(v, Kind::kInt)) {
      out_.begin_object().key("$dict").begin_array();
      while (items.next(key) && items.next(of)) {
        out_.begin_array();
        value(key);
        value(of);
        out_.end_array();
      }
      out_.end_array().end_object();
      return;
    }
    out_.begin_object();
    while (items.next(key) && items.next(of)) {
      out_.key(key.kind == Kind::kText ? std::string(m_.text(key)) : std::to_string(key.integer()));
      value(of);
    }
    out_.end_object();
  }

  void object(const Value& v) {
    const std::string name = graph_.global_of(v);
    const Value state = m_.state_of(v);
    const bool has_state = state.kind != Kind::kUnset && state.kind != Kind::kNil;
    const Value arguments = arguments_of(m_, v);
    PickleMachine::Items first = m_.items(v);
    Value item;
    const bool has_items = first.next(item), pairs = has_items && first.in_pair();
    if (name == "collections.OrderedDict" && m_.count(arguments) == 0 && !has_state && pairs == has_items) return dict(v);
    out_.begin_object();
    if (graph_.is_persistent(v)) {
      out_.key("$storage");
      value(m_.arguments_of(v));
    } else {
      out_.member("$call", name).key("arguments");
      value(arguments);
    }
    if (has_items) {
      out_.key("items");
      if (pairs) dict(v);
      else list(v);
    }
    if (has_state) {
      out_.key("state");
      value(state);
    }
    out_.end_object();
  }

  const PickleGraph& graph_;
  const PickleMachine& m_;
  JsonWriter& out_;
  Walk walk_;
};

}  // namespace

void PrintBound::fail() const {
  throw Error(with_hint(make_problem(ProblemId::over_limit, place, "an object that shares its parts so often that it takes more to print",
                                     "at most " + std::to_string(bytes) + " bytes"),
                        "-o FILE.pt keeps it as it is"));
}

std::string object_text(const PickleGraph& graph, size_t columns, const PrintBound& bound) { return Text(graph, columns, bound).print(); }

void object_json(JsonWriter& out, const PickleGraph& graph) { Json(graph, out).value(graph.root()); }

void check_object_json(const PickleGraph& graph, const PrintBound& bound) {
  uint64_t bytes = 0;
  JsonWriter counted([&](std::string_view text) {
    bytes += text.size();
    if (bytes > bound.bytes) bound.fail();
  });
  object_json(counted, graph);
  counted.finish();
}

}  // namespace dcp::cmd
