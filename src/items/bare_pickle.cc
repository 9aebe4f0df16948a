#include "items/bare_pickle.h"

#include <algorithm>
#include <iterator>
#include <string_view>
#include <unordered_set>
#include <utility>

#include "base/text.h"
#include "format/item_archive.h"
#include "format/legacy_torch.h"
#include "pickle/shadow.h"
#include "pickle/tokens.h"
#include "pickle/weights_only.h"

namespace dcp {
namespace {

constexpr int kLegacyPickles = 5;  // the magic number, the protocol's version, sizes of types, the object, keys of its storages

// The end of the first pickle, after its STOP; nullopt: Python stops before, at `last`.
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

// Collects everything that could be imported, if it would take too much memory to know what is: names, and texts that could be names.
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
  } catch (const Error&) {  // Python would stop here, too
  }
}

// Adds what a pickle imports, as far as Python would get.
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
      if (t.op == Op::GLOBAL || t.op == Op::INST) meet(t.text, t.name);  // Python imports it before it checks its stack
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
    } else {  // Python still runs everything up to there
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

std::optional<Problem> trailing_pickle(uint64_t trailing_bytes, Place behind_stop) {
  if (trailing_bytes == 0) return std::nullopt;
  return make_finding(ProblemId::pickle_trailing, Severity::kWarning, std::move(behind_stop), std::to_string(trailing_bytes) + " bytes");
}

namespace {

// Whether torch.save writes a record of this name, or torch's readers look for it; storages aside.
bool is_torchs(std::string_view name) {
  constexpr std::string_view kNames[] = {"data.pkl",        "version",           "byteorder", ".data/version", ".data/serialization_id",
                                         ".format_version", ".storage_alignment"};
  return name.ends_with('/') || std::ranges::find(kNames, name) != std::end(kNames);
}

// A storage may hold any bytes, so it counts as a pickle only if it begins with the opcode that all pickles have since protocol 2 and ends
// with STOP, or if it imports names that no storage would spell.
bool is_pickle(const BarePickle& found, Bytes begin, std::string_view name) {
  if (name.ends_with(".pkl") || name.ends_with(".pickle") || !found.refused.empty()) return true;
  const bool has_protocol = begin.size() > 2 && static_cast<Op>(begin[0]) == Op::PROTO && std::to_integer<int>(begin[1]) <= 5;
  return has_protocol && found.form != BarePickle::Form::kOther && !found.is_cut;
}

}  // namespace

bool may_hold_pickles(const ZipDirectory& directory, size_t storages) {
  const auto others = std::ranges::count_if(directory.records, [](const ZipRecord& r) { return !is_torchs(r.name); });
  return static_cast<size_t>(others) > storages;
}

std::vector<Problem> unloaded_pickles(ItemSource& item, const ZipDirectory& directory, const std::set<std::string, std::less<>>& named,
                                      const Place& place, const Limits& limits) {
  constexpr std::string_view kStorages = "data/";
  constexpr uint64_t kLookedAt = 4 * kMiB;
  std::vector<Problem> all;
  for (const ZipRecord& r : directory.records) {
    if (is_torchs(r.name) || r.size == 0) continue;
    if (r.name.starts_with(kStorages) && named.contains(std::string_view(r.name).substr(kStorages.size()))) continue;
    std::vector<std::byte> begin;
    Place at = place;
    at.member = r.name;
    try {
      const uint64_t payload = payload_of(item, directory, r, place);
      at.offset = place.offset.value_or(0) + payload;
      const auto add = [&](Bytes block) { begin.insert(begin.end(), block.begin(), block.end()); };
      if (!r.deflated()) add(item.at(payload, std::min(r.packed, kLookedAt)));
      else if (r.size <= limits.decoded_bytes) read_record(item, r, payload, place, add);
    } catch (const Error&) {  // a record that cannot be read cannot be run
    }
    const BarePickle found = look_at_bare_pickle(begin, at, limits);
    if (!is_pickle(found, begin, r.name)) continue;
    Problem p = make_finding(ProblemId::pickle_unloaded, Severity::kWarning, std::move(at), joined(found.refused, ", ").substr(0, 1000));
    p.names = found.refused;
    all.push_back(std::move(p));
  }
  return all;
}

}  // namespace dcp
