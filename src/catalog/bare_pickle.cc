#include "catalog/bare_pickle.h"

#include <functional>
#include <optional>
#include <string_view>
#include <unordered_set>
#include <utility>

#include "format/legacy_torch.h"
#include "pickle/shadow.h"
#include "pickle/tokens.h"
#include "pickle/weights_only.h"

namespace dcp {
namespace {

constexpr int kLegacyPickles = 5;  // the magic number, the protocol's version, sizes of types, the object, keys of its storages

// Where the first pickle ends, after STOP; nullopt: Python stops before, at `last`.
std::optional<uint64_t> end_of(Bytes pickle, const Place& place, uint64_t& last) {
  TokenReader reader(pickle, place, Opcodes::kPythons);
  try {
    for (Token t;; last = reader.position()) {
      reader.next(t);
      if (t.op == Op::STOP) return reader.position();
    }
  } catch (const Error&) {
    return std::nullopt;
  }
}

constexpr const char* kComputed = "a name that the pickle computes";

// What could be imported, where too much would have to be kept to know what is: names, and texts that could be such.
void add_all_refused(Bytes pickle, const Place& place, const std::function<void(std::string_view, std::string_view)>& meet) {
  TokenReader reader(pickle, place, Opcodes::kPythons);
  std::string_view module, name;  // the last two texts
  Token t;
  try {
    do {
      reader.next(t);
      if (t.op == Op::GLOBAL || t.op == Op::INST) meet(t.text, t.name);
      if (t.op == Op::STACK_GLOBAL) meet(module, name);
      if (is_text(t.op)) module = std::exchange(name, t.text);
    } while (t.op != Op::STOP);
  } catch (const Error&) {  // Python stops here, too
  }
}

// Adds what a whole pickle imports, as far as Python would get.
void add_refused(Bytes pickle, const Place& place, const Limits& limits, std::vector<std::string>& refused) {
  std::unordered_set<std::string> known(refused.begin(), refused.end());
  const auto meet = [&](std::string_view module, std::string_view name) {
    std::string global = std::string(module) + "." + std::string(name);
    if (!weights_only_allows(global) && known.insert(global).second) refused.push_back(std::move(global));
  };
  Token t;
  try {
    TokenReader reader(pickle, place, Opcodes::kPythons);
    ShadowStack shadow(pickle, place, limits, StorageIds::kAny, Opcodes::kPythons);
    do {
      reader.next(t);
      if (t.op == Op::GLOBAL || t.op == Op::INST) meet(t.text, t.name);  // which Python imports before it looks at its stack
      shadow.step(t);
      if (t.op == Op::STACK_GLOBAL) meet(shadow.module(), shadow.name());
    } while (t.op != Op::STOP);
  } catch (const Error& e) {
    if (e.problem().id == ProblemId::over_limit) add_all_refused(pickle, place, meet);
    else if (e.problem().id == ProblemId::pickle_operand && t.op == Op::STACK_GLOBAL) refused.push_back(kComputed);
  }
}

}  // namespace

bool begins_archive(Bytes begin) { return as_text(begin).starts_with("PK\x03\x04"); }

BarePickle look_at_bare_pickle(Bytes item, const Place& place, const Limits& limits) {
  BarePickle found;
  for (int n = 0; n < kLegacyPickles && !item.empty(); ++n) {
    uint64_t last = 0;
    const std::optional<uint64_t> end = end_of(item, place, last);
    if (end) {
      add_refused(item.first(*end), place, limits, found.refused);
    } else {  // up to there Python runs it all the same
      std::vector<std::byte> begin(item.begin(), item.begin() + static_cast<std::ptrdiff_t>(last));
      begin.push_back(std::byte{'.'});
      add_refused(begin, place, limits, found.refused);
    }
    found.is_cut = !end;
    if (n == 0 && end && as_text(item.first(*end)).ends_with(kLegacyMagic)) found.form = BarePickle::Form::kLegacy;
    else if (n == 0 && (end || !found.refused.empty())) found.form = BarePickle::Form::kPickle;
    if (!end || found.form != BarePickle::Form::kLegacy) break;
    item = item.subspan(*end);
  }
  return found;
}

}  // namespace dcp
