// Pickle opcodes: tokens lie back to back inside the input, and texts inside their tokens.
#include "fuzz.h"
#include "pickle/tokens.h"

namespace dcp::fuzz {
namespace {

bool inside(std::string_view text, Bytes input, const Token& t) {
  if (text.empty()) return true;
  const auto* begin = reinterpret_cast<const std::byte*>(text.data());
  return begin > input.data() + t.offset && begin + text.size() <= input.data() + t.end;
}

bool has_text(Op op) {
  switch (op) {
    case Op::SHORT_BINUNICODE:
    case Op::BINUNICODE:
    case Op::BINUNICODE8:
    case Op::SHORT_BINBYTES:
    case Op::BINBYTES:
    case Op::GLOBAL: return true;
    default: return false;
  }
}

}  // namespace

void run(Bytes input) {
  const Place place{.path = "pickle"};
  TokenReader reader(input, place), skipping(input, place);
  uint64_t last = 0;
  for (Token t, s;; last = t.end) {
    // What is skipped ends where a token begins.
    skipping.skip_plain([](uint64_t) { return true; });
    while (reader.position() < skipping.position()) {
      reader.next(t);
      must(t.offset == last && t.end > t.offset && t.end <= input.size(), "tokens lie back to back");
      last = t.end;
    }
    must(reader.position() == skipping.position(), "what is skipped are whole tokens");
    t = s = Token{};  // only what an opcode fills is written
    reader.next(t);
    skipping.next(s);
    must(t.offset == last && t.end > t.offset && t.end <= input.size() && t.end == reader.position(), "tokens lie back to back");
    must(t.op == s.op && t.end == s.end && t.integer == s.integer, "both read the same");
    if (has_text(t.op)) must(inside(t.text, input, t), "a text lies in its token");
    if (t.op == Op::GLOBAL) must(inside(t.name, input, t), "a name lies in its token");
    if (t.op == Op::STOP) return;
  }
}

}  // namespace dcp::fuzz
