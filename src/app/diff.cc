#include "app/diff.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <unordered_set>
#include <utility>

#include "app/diff_side.h"
#include "app/resources.h"
#include "exec/compare.h"
#include "plan/units.h"
#include "select/globs.h"
#include "select/quantized.h"

namespace dcp {
namespace {

// --- which keys

uint64_t common_keys(const Selection& a, const Selection& b) {
  std::unordered_set<std::string_view> keys;
  for (const Entry& e : a.entries) keys.insert(e.key);
  return static_cast<uint64_t>(std::ranges::count_if(b.entries, [&](const Entry& e) { return keys.contains(e.key); }));
}

// New names are for both sides, or for the one alone that has the old ones: whatever makes more keys meet.
void choose_names(const SelectOptions& options, DiffSide& a, DiffSide& b) {
  SelectOptions plain = options;
  plain.renames.clear();
  plain.rename_map.clear();
  plain.add_root.clear();
  Selection plain_a = select_on(a, plain), plain_b = select_on(b, plain);
  Selection &of_a = a.selected.selection, &of_b = b.selected.selection;
  const uint64_t both = common_keys(of_a, of_b), only_a = common_keys(of_a, plain_b), only_b = common_keys(plain_a, of_b);
  if (only_a > both && only_a >= only_b) of_b = std::move(plain_b);
  else if (only_b > both) of_a = std::move(plain_a);
}

// One side may lack the root, a key, or everything requested; then nothing is selected there, or, for a missing root, all keys. Returns rules that
// match no key of either side.
std::vector<UnmatchedRule> select_both(const SelectOptions& options, bool is_mapped, DiffSide& a, DiffSide& b) {
  for (DiffSide* side : {&a, &b}) {
    SelectOptions own = options;
    if (is_mapped) std::erase_if(own.rules, [&](const KeyRule& r) { return !side->has(r); });  // others are about names that the map makes
    side->select(own);
  }
  const std::optional<Problem>&lacks = a.selected.selection.lacks, &lacks_b = b.selected.selection.lacks;
  if (lacks && lacks_b && (lacks->id != ProblemId::key_missing || lacks->got == lacks_b->got)) throw Error(*lacks);
  const bool renames = !options.renames.empty() || !options.rename_map.empty() || !options.add_root.empty();
  if (renames && !is_mapped) choose_names(options, a, b);
  const std::vector<UnmatchedRule>& in_b = b.selected.selection.unmatched;
  std::vector<UnmatchedRule> unmatched = a.selected.selection.unmatched;
  std::erase_if(unmatched, [&](const UnmatchedRule& rule) { return std::ranges::find(in_b, rule) == in_b.end(); });
  return unmatched;
}

// Returns rules that match no key of either side, under its own name or under the one that the map gives it.
std::vector<UnmatchedRule> map_both(const SelectOptions& options, const MapRequest& map, World& world, DiffSide& a, DiffSide& b) {
  for (DiffSide* side : {&a, &b}) map_side(*side, options, map, world);
  std::vector<UnmatchedRule> unmatched;
  for (const KeyRule& r : options.rules) {
    if (a.has(r) || b.has(r) || a.makes(r) || b.makes(r)) continue;
    if (r.kind == KeyRule::Kind::kKey) fail(ProblemId::key_missing, {.path = a.catalog().path}, r.text);
    unmatched.push_back({r.kind == KeyRule::Kind::kExclude ? "exclude" : "include", r.text});
  }
  for (DiffSide* side : {&a, &b}) {
    std::vector<KeyRule> rest = options.rules;
    if (std::erase_if(rest, [&](const KeyRule& r) { return side->has(r); }) == options.rules.size()) continue;
    if (side->is_mapped()) keep_made(*side, rest);
    else side->select(options);
  }
  return unmatched;
}

// --- what they hold

struct Both {
  const HeldKeys &a, &b;
};

// Keys of both sides that hold tensors of one shape and a dtype in common.
struct TensorKeys {
  const DiffKey *a, *b;
  DType as;
};

HeldValue held(const HeldKeys& side, const DiffKey& key) {
  if (key.kind == DiffKey::Kind::kObject) return {.dtype = {}, .shape = {}, .text = key.text};
  const Catalog& catalog = side.of(key.kind).catalog;
  const Tensor& t = catalog.tensors[key.tensor];
  return {.is_tensor = true, .dtype = std::string(catalog.strings[t.dtype_name]), .shape = catalog.shape(t), .text = {}};
}

bool has_values(const Catalog& c, const Tensor& t) {
  return !is_quantized(c.key(t), t.dtype, [&](std::string_view key) { return c.has_key(key); });
}

std::optional<DType> common_dtype(const DiffRequest& request, const Catalog& in_a, const Tensor& a, const Catalog& in_b, const Tensor& b) {
  if (!a.dtype_known || !b.dtype_known)
    return in_a.strings[a.dtype_name] == in_b.strings[b.dtype_name] ? std::optional(a.dtype) : std::nullopt;
  if (request.compare_as && castable(a.dtype) && castable(b.dtype) && (request.raw || (has_values(in_a, a) && has_values(in_b, b))))
    return request.compare_as;
  return a.dtype == b.dtype ? std::optional(a.dtype) : std::nullopt;
}

void note_only(const DiffKey& key, const HeldKeys& side, const HeldKeys& other, KeyDifference::Kind kind, DiffResult& result) {
  const bool is_a = kind == KeyDifference::Kind::kOnlyA, is_object = key.kind == DiffKey::Kind::kObject;
  DiffResult::Side& reported = is_a ? result.a : result.b;
  if (is_object && !other.holds_objects()) return reported.not_held.push_back(key.key);
  if (is_object && key.may_be_gone && other.drops_empty()) return reported.gone.push_back(key.key);
  KeyDifference d{.kind = kind, .key = key.key, .a = {}, .b = {}, .is_state = key.is_state};
  (is_a ? d.a : d.b) = held(side, key);
  result.differences.push_back(std::move(d));
}

// How a key of both differs without its values; otherwise it is added to `tensors`, or an object that is equal.
std::optional<KeyDifference::Kind> difference_of(const DiffRequest& request, const Both& in, const DiffKey& a, const DiffKey& b,
                                                 std::vector<TensorKeys>& tensors) {
  using Kind = KeyDifference::Kind;
  const bool object_a = a.kind == DiffKey::Kind::kObject, object_b = b.kind == DiffKey::Kind::kObject;
  if (object_a != object_b) return Kind::kKind;
  if (object_a) return a.digest == b.digest ? std::nullopt : std::optional(Kind::kObject);
  const Catalog &in_a = in.a.of(a.kind).catalog, &in_b = in.b.of(b.kind).catalog;
  const Tensor &t = in_a.tensors[a.tensor], &u = in_b.tensors[b.tensor];
  if (!std::ranges::equal(in_a.dims(t), in_b.dims(u))) return Kind::kShape;
  const std::optional<DType> as = common_dtype(request, in_a, t, in_b, u);
  if (!as) return Kind::kDType;
  tensors.push_back({&a, &b, *as});
  return {};
}

// What differs between keys, dtypes, shapes and objects. Returns the tensors whose values remain to be compared.
std::vector<TensorKeys> compare_keys(const DiffRequest& request, const Both& in, DiffResult& result) {
  std::vector<TensorKeys> tensors;
  auto a = in.a.keys.begin();
  auto b = in.b.keys.begin();
  while (a != in.a.keys.end() || b != in.b.keys.end()) {
    const int order = a == in.a.keys.end() ? 1 : b == in.b.keys.end() ? -1 : a->key.compare(b->key);
    if (order < 0) {
      note_only(*a++, in.a, in.b, KeyDifference::Kind::kOnlyA, result);
    } else if (order > 0) {
      note_only(*b++, in.b, in.a, KeyDifference::Kind::kOnlyB, result);
    } else {
      ++(a->kind == DiffKey::Kind::kObject && b->kind == DiffKey::Kind::kObject ? result.objects : result.tensors);
      result.state_of_both += a->is_state;
      result.common.emplace_back(a->key);
      if (const auto kind = difference_of(request, in, *a, *b, tensors))
        result.differences.push_back({.kind = *kind, .key = a->key, .a = held(in.a, *a), .b = held(in.b, *b), .is_state = a->is_state});
      ++a, ++b;
    }
  }
  return tensors;
}

// --- what their values are

// Tensors of the same two catalogs, led by the same side, are compared together.
struct TensorBatch {
  Source lead, follow;
  bool lead_is_a = true;
  std::vector<TensorPair> pairs{};
  std::vector<const TensorKeys*> keys{};
  std::vector<uint32_t> pair_of{};  // by key: what several share is compared once
  ComparePlan plan{};
};

std::vector<TensorBatch> batches_of(const std::vector<TensorKeys>& tensors, const Both& in, const UnitOptions& units) {
  std::map<std::tuple<DiffKey::Kind, DiffKey::Kind, bool>, TensorBatch> all;
  std::map<std::tuple<const TensorBatch*, TensorId, TensorId>, uint32_t> numbers;
  for (const TensorKeys& k : tensors) {
    const Source a = in.a.of(k.a->kind), b = in.b.of(k.b->kind);
    const bool lead_is_a = leads_by(a, k.a->tensor) >= leads_by(b, k.b->tensor);
    const auto [at, fresh] = all.try_emplace({k.a->kind, k.b->kind, lead_is_a},
                                             TensorBatch{.lead = lead_is_a ? a : b, .follow = lead_is_a ? b : a, .lead_is_a = lead_is_a});
    TensorBatch& batch = at->second;
    const TensorId lead = lead_is_a ? k.a->tensor : k.b->tensor, follow = lead_is_a ? k.b->tensor : k.a->tensor;
    const auto [number, is_new] = numbers.try_emplace({&batch, lead, follow}, static_cast<uint32_t>(batch.pairs.size()));
    if (is_new) batch.pairs.push_back({.lead = lead, .follow = follow, .as = k.as});
    batch.keys.push_back(&k);
    batch.pair_of.push_back(number->second);
  }
  std::vector<TensorBatch> batches;
  for (auto& [what, batch] : all) {
    batch.plan = plan_compare(batch.lead, batch.follow, batch.pairs, units);
    batches.push_back(std::move(batch));
  }
  return batches;
}

void add_values(const TensorBatch& batch, const CompareReport& report, const Both& in, DiffResult& result) {
  for (size_t i = 0; i < batch.keys.size(); ++i) {
    const TensorKeys& k = *batch.keys[i];
    const Catalog& catalog = in.a.of(k.a->kind).catalog;
    const uint64_t elements = catalog.elements(catalog.tensors[k.a->tensor]);
    result.elements += elements;
    result.tensor_bytes += elements * bytes_of(catalog.tensors[k.a->tensor].dtype);
    const auto found = report.differences.find(batch.pair_of[i]);
    if (found == report.differences.end()) continue;
    const ElementDifferences& values = found->second;
    result.values.changed += values.changed;
    result.values.differing += values.differing;
    result.values.same_value += values.same_value;
    result.values.non_finite += values.non_finite;
    if (values.differing == 0) continue;
    result.differences.push_back({.kind = KeyDifference::Kind::kValues,
                                  .key = k.a->key,
                                  .a = held(in.a, *k.a),
                                  .b = held(in.b, *k.b),
                                  .is_state = k.a->is_state,
                                  .dtype = k.as,
                                  .elements = elements,
                                  .values = values});
  }
}

void compare_values(const DiffRequest& request, const std::vector<TensorKeys>& tensors, const Both& in, World& world, DiffResult& result) {
  const UnitOptions units = units_of(world, request.a.source.path, request.a.max_memory);
  const std::vector<TensorBatch> batches = batches_of(tensors, in, units);
  uint64_t total = 0;
  for (const TensorBatch& batch : batches) total += batch.plan.bytes_to_read();
  Progress progress;
  const auto display = world.events.show(progress, progress.bytes_read, total);
  for (const HeldKeys* side : {&in.a, &in.b})
    compare_ties(side->ready, side->side.selected, reading_workers(request.a.threads, world, request.a.source.path), world);
  for (const TensorBatch& batch : batches) {
    uint64_t planned = 0;
    const uint64_t worker_bytes = compare_worker_bytes(batch.plan, batch.follow);
    const CompareOptions options{.workers = fit(in.a.ready.opened, batch.plan.lead, worker_bytes, world, planned),
                                 .tolerance = request.tolerance,
                                 .lead_is_a = batch.lead_is_a};
    result.planned_memory = std::max(result.planned_memory, planned);
    const CompareReport report = compare(batch.plan, {batch.lead, batch.follow}, options, progress, world.stop);
    refuse_damage(report.damage, world);
    add_values(batch, report, in, result);
  }
  result.bytes_read = progress.bytes_read;
}

// --- the whole

DiffSide open_side(const ReadRequest& request, uint64_t memory_cap, World& world, DiffResult::Side& reported) {
  DiffSide side{.opened = open(request, memory_cap, world), .selected = {}, .rules = {}};
  reported.checkpoint = side.catalog().path;
  reported.kind = side.catalog().kind;
  note_warnings(*side.opened.found, world);
  return side;
}

// What one side is found to need is no number for both, and what objects need is known only once they are read.
template <class Fn>
void with_unknown_needs(const Fn& fn) {
  try {
    fn();
  } catch (const Error& e) {
    if (e.problem().id != ProblemId::memory_cap) throw;
    Problem p = e.problem();
    p.enough_bytes = 0;
    throw Error(std::move(p));
  }
}

}  // namespace

bool DiffResult::model_equal() const {
  return tensors > 0 && state_of_both == 0 && !equal() &&
         std::ranges::all_of(differences, [](const KeyDifference& d) { return d.kind == KeyDifference::Kind::kOnlyA && d.is_state; });
}

uint64_t DiffResult::count(KeyDifference::Kind kind) const {
  return static_cast<uint64_t>(std::ranges::count(differences, kind, &KeyDifference::kind));
}

void diff(const DiffRequest& request, World& world, DiffResult& result) {
  const uint64_t begin = world.io.now_ns();
  DiffSide side_a, side_b;
  Ready ready_a, ready_b;
  const uint64_t cap_a = begin_reading(request.a, world), cap_b = begin_reading(request.b, world);
  with_unknown_needs([&] {
    side_a = open_side(request.a, cap_a, world, result.a);
    side_b = open_side(request.b, cap_b, world, result.b);
    const SelectOptions select = meant_on(request.select, side_a, side_b);
    result.unmatched = select_both(select, request.map.is_given(), side_a, side_b);
    if (request.map.is_given()) result.unmatched = map_both(select, request.map, world, side_a, side_b);
    ready_a = resolve_side(side_a, side_b, select, request.keys_only, world);
    ready_b = resolve_side(side_b, side_a, select, request.keys_only, world);
  });
  const HeldKeys a(std::move(side_a), std::move(ready_a)), b(std::move(side_b), std::move(ready_b));
  if (a.keys.empty() && b.keys.empty() && !request.select.rules.empty())
    fail(ProblemId::nothing_selected, {.path = a.ready.catalog().path});
  const std::vector<TensorKeys> tensors = compare_keys(request, {a, b}, result);
  if (!request.keys_only) compare_values(request, tensors, {a, b}, world, result);
  std::ranges::stable_sort(result.differences, {}, &KeyDifference::key);
  result.nanoseconds = world.io.now_ns() - begin;
}

}  // namespace dcp
