// What an object is, from its pickle: a value in JSON, or the names that loading it would call.
#include <algorithm>
#include <bit>
#include <cmath>
#include <set>
#include <vector>

#include "api/checkpoint_state.h"
#include "base/json.h"
#include "base/text.h"
#include "pickle/graph.h"
#include "pickle/weights_only.h"

namespace dcpctl {
namespace {

using dcp::Kind;
using dcp::Value;

bool is_utf8(std::string_view text) {
  while (!text.empty()) {
    const dcp::CodePoint c = dcp::first_code_point(text);
    if (c.size == 0) return false;
    text.remove_prefix(c.size);
  }
  return true;
}

// Writes a value of numbers, texts and containers. Recursion ends at kMaxDepth, also in containers that hold themselves.
class PlainValue {
 public:
  explicit PlainValue(const dcp::PickleGraph& graph) : graph_(graph), m_(graph.machine()) {}

  // "": there is something else in it, or it is nested too deep or shares too much to be written out.
  std::string json() {
    if (!value(graph_.root())) return "";
    json_.finish();
    text_.pop_back();  // the newline
    return std::move(text_);
  }

 private:
  static constexpr size_t kMaxDepth = 100;
  static constexpr uint64_t kMaxValues = 1 << 20, kMaxBytes = 64 << 20;

  bool tagged(const char* tag, const auto& content) {
    json_.begin_object().key(tag);
    const bool is_plain = content();
    if (is_plain) json_.end_object();
    return is_plain;
  }

  bool elements(const Value& v) {
    json_.begin_array();
    auto items = m_.items(v);
    for (Value of; items.next(of);)
      if (!value(of)) return false;
    json_.end_array();
    return true;
  }

  bool pairs(const Value& v) {
    json_.begin_array();
    auto items = m_.items(v);
    for (Value key, of; items.next(key) && items.next(of);) {
      json_.begin_array();
      if (!value(key) || !value(of)) return false;
      json_.end_array();
    }
    json_.end_array();
    return true;
  }

  bool bytes(std::string_view bytes) {
    std::string hex;
    for (const char c : bytes) hex += dcp::hex(static_cast<uint8_t>(c), 2);
    return tagged("bytes", [&] { return json_.value(hex), true; });
  }

  bool number(double number) {
    if (std::isfinite(number)) return json_.digits(dcp::python_float(number)), true;
    return tagged("float", [&] { return json_.value(std::isnan(number) ? "nan" : number < 0 ? "-inf" : "inf"), true; });
  }

  bool container(const Value& v) {
    switch (v.kind) {
      case Kind::kTuple: return tagged("tuple", [&] { return elements(v); });
      case Kind::kList: return elements(v);
      case Kind::kDict: return tagged("dict", [&] { return pairs(v); });
      case Kind::kObject: return call(v);
      case Kind::kSet: return tagged(v.tag != 0 ? "frozenset" : "set", [&] { return elements(v); });
      default: return false;
    }
  }

  // What a pickle of protocol 2 has calls for: bytes, and sets.
  bool call(const Value& v) {
    if (v.tag != static_cast<uint16_t>(dcp::CallForm::kReduce) || m_.state_of(v).kind != Kind::kUnset) return false;
    std::vector<Value> arguments;
    auto items = m_.items(m_.arguments_of(v));
    for (Value of; arguments.size() < 3 && items.next(of);) arguments.push_back(of);
    const std::string name = graph_.global_of(v);
    if (name == "__builtin__.bytes") return arguments.empty() && bytes("");
    if (name == "_codecs.encode") return is_latin1(arguments) && bytes(latin1(m_.text(arguments[0])));
    if (arguments.size() != 1 || arguments[0].kind != Kind::kList) return false;
    if (name == "__builtin__.set") return tagged("set", [&] { return elements(arguments[0]); });
    return name == "__builtin__.frozenset" && tagged("frozenset", [&] { return elements(arguments[0]); });
  }

  bool is_latin1(const std::vector<Value>& arguments) const {
    if (arguments.size() != 2 || arguments[0].kind != Kind::kText || arguments[1].kind != Kind::kText) return false;
    std::string_view text = m_.text(arguments[0]);
    for (; !text.empty(); text.remove_prefix(dcp::first_code_point(text).size))
      if (const dcp::CodePoint c = dcp::first_code_point(text); c.size == 0 || c.value > 0xFF) return false;
    return m_.text(arguments[1]) == "latin1";
  }

  static std::string latin1(std::string_view text) {
    std::string bytes;
    for (dcp::CodePoint c; !text.empty(); text.remove_prefix(c.size)) {
      c = dcp::first_code_point(text);
      bytes += static_cast<char>(c.value);
    }
    return bytes;
  }

  bool value(const Value& v) {
    if (++values_ > kMaxValues || text_.size() > kMaxBytes || depth_ == kMaxDepth) return false;
    switch (v.kind) {
      case Kind::kNil: return json_.null(), true;
      case Kind::kBool: return json_.value(v.payload != 0), true;
      case Kind::kInt: return json_.value(v.integer()), true;
      case Kind::kFloat: return number(std::bit_cast<double>(v.payload));
      case Kind::kBig: return v.n <= 128 && (json_.digits(graph_.scalar_repr(v, {})), true);
      case Kind::kBytes: return v.tag == 0 && bytes(m_.text(v));
      case Kind::kText: return is_utf8(m_.text(v)) && (json_.value(m_.text(v)), true);
      default: break;
    }
    ++depth_;
    const bool is_plain = container(v);
    --depth_;
    return is_plain;
  }

  const dcp::PickleGraph& graph_;
  const dcp::PickleMachine& m_;
  std::string text_;
  dcp::JsonWriter json_{[this](std::string_view block) { text_ += block; }};
  size_t depth_ = 0;
  uint64_t values_ = 0;
};

}  // namespace

ObjectInfo object_info(const dcp::BlobItem& object, const dcp::Limits& limits) {
  const dcp::PickleGraph graph(object.pickle, object.pickle_place, limits);
  ObjectInfo info{.value = PlainValue(graph).json()};
  if (!info.value.empty()) return info;
  std::set<std::string> seen;
  for (const auto& [module, name] : graph.globals())
    if (std::string global = std::string(module) + "." + std::string(name); seen.insert(global).second) info.would_call.push_back(global);
  info.refused = dcp::refused_globals(object.pickle, object.pickle_place, limits);
  return info;
}

}  // namespace dcpctl
