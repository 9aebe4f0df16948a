// Attributes of Metadata that torch does not know, kept as opcodes so that a rewritten metadata can carry them on.
#include <algorithm>
#include <bit>

#include "format/dcp_metadata_handler.h"
#include "pickle/writer.h"

namespace dcp {
namespace {

constexpr unsigned kDepth = 32;  // of nested containers; the walk recurses

}  // namespace

// Writes plain values, each in full. For a value that is not plain, it throws the reason as a text.
class MetadataHandler::PlainWriter {
 public:
  PlainWriter(const MetadataHandler& handler, const PickleMachine& m, uint64_t& left) : handler_(handler), m_(m), left_(left) {}

  std::string opcodes(const Value& v) {
    std::string text;
    PickleWriter writer(text, PickleProtocol::k4);
    value(v, writer, text, 0);
    left_ -= std::min<uint64_t>(left_, text.size());
    return text;
  }

 private:
  void value(const Value& v, PickleWriter& out, const std::string& text, unsigned depth) {
    if (depth == kDepth || text.size() > left_) throw std::string("too much of it");
    switch (v.kind) {
      case Kind::kNil: return out.op(Op::NONE);
      case Kind::kBool: return out.boolean(v.payload != 0);
      case Kind::kInt: return out.integer(v.integer());
      case Kind::kFloat: return out.real(std::bit_cast<double>(v.payload));
      case Kind::kText: return out.text(m_.text(v));
      case Kind::kTuple: return sequence(v, out, text, depth, Op::TUPLE);
      case Kind::kList: out.op(Op::EMPTY_LIST); return sequence(v, out, text, depth, Op::APPENDS);
      case Kind::kDict: out.op(Op::EMPTY_DICT); return sequence(v, out, text, depth, Op::SETITEMS);
      default: break;
    }
    if (!is(v, kSize)) throw handler_.type_of(m_, v);
    out.global("torch", "Size");
    out.op(Op::MARK);
    for (uint32_t i = 0; i < v.n; ++i) out.integer(handler_.content_.ints[v.payload + i]);
    out.op(Op::TUPLE);
    out.tuple(1);
    out.op(Op::REDUCE);
  }

  void sequence(const Value& v, PickleWriter& out, const std::string& text, unsigned depth, Op end) {
    out.op(Op::MARK);
    Value item;
    for (auto it = m_.items(v); it.next(item);) value(item, out, text, depth + 1);
    out.op(end);
  }

  const MetadataHandler& handler_;
  const PickleMachine& m_;
  uint64_t& left_;  // bytes: values that the memo shares may be read repeatedly
};

ExtraAttribute MetadataHandler::read_attribute(const PickleMachine& m, std::string_view name, const Value& v) {
  ExtraAttribute a{.name = std::string(name), .type = type_of(m, v), .not_plain = {}, .entries = {}, .value = {}};
  Value key, of_key;
  a.is_dict = v.kind == Kind::kDict;
  if (a.is_dict)
    for (auto it = m.items(v); it.next(key) && it.next(of_key);) a.is_dict = a.is_dict && key.kind == Kind::kText;
  try {
    PlainWriter plain(*this, m, attribute_bytes_);
    if (!a.is_dict) a.value = plain.opcodes(v);
    else
      for (auto it = m.items(v); it.next(key) && it.next(of_key);) a.entries.emplace_back(m.text(key), plain.opcodes(of_key));
  } catch (const std::string& what) {
    a.not_plain = what;
    a.entries.clear();
  }
  return a;
}

}  // namespace dcp
