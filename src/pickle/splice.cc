#include "pickle/splice.h"

#include <algorithm>
#include <map>
#include <unordered_set>

#include "pickle/shadow.h"
#include "pickle/weights_only.h"

namespace dcp {
namespace {

// A place where a storage key is pushed, and what to push there.
struct KeyPush {
  uint64_t offset = 0;
  const std::string* new_key = nullptr;
};

struct Survey {
  SpliceResult result;
  std::map<std::string, std::string, std::less<>> new_keys;  // by old key
  std::vector<KeyPush> pushes;                               // sorted by offset
  uint64_t slots = 0;                                        // highest slot put + 1
  uint64_t highest_put = 0;                                  // offset of the opcode that put it

  const KeyPush* find(uint64_t offset) const {
    const auto at = std::lower_bound(pushes.begin(), pushes.end(), offset, [](const KeyPush& p, uint64_t o) { return p.offset < o; });
    return at != pushes.end() && at->offset == offset ? &*at : nullptr;
  }
};

// Whether splicing drops the opcode or writes it in another way.
bool is_rewritten(Op op) { return op == Op::FRAME || op == Op::MEMOIZE || op == Op::SHORT_BINUNICODE; }

bool is_put(Op op) { return op == Op::BINPUT || op == Op::LONG_BINPUT || op == Op::MEMOIZE; }

Survey survey(Bytes pickle, const Place& place, const Limits& limits, const RenameStorage& rename) {
  Survey s;
  ShadowStack shadow(pickle, place, limits);
  TokenReader reader(pickle, place);
  std::unordered_set<std::string> seen_globals;
  Token t;
  do {
    reader.next(t);
    shadow.step(t);
    s.result.weights_only_opcodes =
        s.result.weights_only_opcodes && (is_rewritten(t.op) || weights_only_reads(t.op)) && !shadow.built_global();
    if (is_put(t.op) && shadow.slot() >= s.slots) {
      s.slots = shadow.slot() + 1;
      s.highest_put = t.offset;
    }
    if (t.op == Op::GLOBAL || t.op == Op::STACK_GLOBAL) {
      std::string name = std::string(shadow.module()) + "." + std::string(shadow.name());
      if (seen_globals.insert(name).second) s.result.globals.push_back(std::move(name));
    }
    if (const auto& use = shadow.key_use()) {
      const std::string_view old_key = shadow.text(use->key);
      auto known = s.new_keys.find(old_key);
      if (known == s.new_keys.end()) known = s.new_keys.emplace(std::string(old_key), rename(old_key)).first;
      s.pushes.push_back({use->push, &known->second});
    }
  } while (t.op != Op::STOP);
  std::sort(s.pushes.begin(), s.pushes.end(), [](const KeyPush& a, const KeyPush& b) { return a.offset < b.offset; });
  return s;
}

void emit(Bytes pickle, const Place& place, const Limits& limits, const Survey& s, PickleWriter& writer) {
  ShadowStack shadow(pickle, place, limits);
  TokenReader reader(pickle, place);
  const uint64_t base = writer.next_slot();
  const uint64_t begin = writer.size();
  writer.claim(s.slots);
  const auto verbatim = [&](uint64_t from, uint64_t to) { writer.raw(as_text(pickle).substr(from, to - from)); };
  const auto literal = [&](const ShadowStack::Literal& l) {
    if (static_cast<Op>(pickle[l.offset]) == Op::SHORT_BINUNICODE) writer.text(shadow.text(l));
    else writer.raw(shadow.opcode(l));
  };
  Token t;
  for (;;) {
    reader.next(t);
    shadow.step(t);
    if (const KeyPush* key = s.find(t.offset)) {
      writer.text(*key->new_key);
      continue;
    }
    switch (t.op) {
      case Op::STOP:
        // Each slot takes an opcode, so a number above the count of bytes is bogus, and everything spliced after it would inherit it. It is
        // compared with the bytes written, since readers compare slots with the size of the whole (Memo).
        if (const uint64_t bytes = writer.size() - begin; s.slots > bytes)
          fail(ProblemId::over_limit, at_offset(place, s.highest_put), "memo slot " + std::to_string(s.slots - 1),
               "below " + std::to_string(bytes));
        return;
      case Op::PROTO:
      case Op::FRAME: break;
      case Op::SHORT_BINUNICODE: writer.text(t.text); break;
      case Op::BINPUT:
      case Op::LONG_BINPUT:
      case Op::MEMOIZE: writer.put_at(base + shadow.slot()); break;
      case Op::BINGET:
      case Op::LONG_BINGET:
        // The slot of a literal that was written as a key holds the new key.
        if (shadow.got() && s.find(shadow.got().offset) != nullptr) literal(shadow.got());
        else writer.get(base + static_cast<uint64_t>(t.integer));
        break;
      default: verbatim(t.offset, t.end);
    }
  }
}

}  // namespace

SpliceResult splice_pickle(Bytes pickle, const Place& place, const Limits& limits, const RenameStorage& rename, PickleWriter& writer) {
  Survey s = survey(pickle, place, limits, rename);
  emit(pickle, place, limits, s, writer);
  return std::move(s.result);
}

}  // namespace dcp
