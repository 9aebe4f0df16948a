#include "app/diff.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <unordered_set>
#include <utility>

#include "app/diff_side.h"
#include "app/memory.h"
#include "plan/units.h"
#include "select/globs.h"
#include "select/quantized.h"

namespace dcp {
namespace {

// --- which keys

// Globs as they are meant among the keys of both sides. Inside an object there may be a key of that name, or a dict.
SelectOptions meant_on(SelectOptions options, const DiffSide& a, const DiffSide& b) {
  if (options.rules.empty()) return options;
  std::vector<std::string_view> keys;
  for (const DiffSide* side : {&a, &b})
    for (const KeyRef ref : side->catalog().order) keys.push_back(side->catalog().key(ref));
  std::vector<KeyRule> rules;
  for (KeyRule& r : meant_rules(std::move(options.rules), KnownKeys(std::move(keys)))) {
    rules.push_back(r);
    if (r.kind != KeyRule::Kind::kKey && (a.may_lie_in_object(r.text) || b.may_lie_in_object(r.text)))
      rules.push_back({.kind = r.kind, .text = r.text + ".*"});
  }
  options.rules = std::move(rules);
  return options;
}

// An exact key that only the other side has matches nothing here. Written as a glob that means itself.
SelectOptions with_globs(SelectOptions options) {
  for (KeyRule& r : options.rules) {
    if (r.kind != KeyRule::Kind::kKey) continue;
    std::string glob;
    for (const char c : r.text) glob += (std::string_view("*?[]\\").find(c) == std::string_view::npos ? "" : "\\") + std::string(1, c);
    r = {.kind = KeyRule::Kind::kInclude, .text = std::move(glob)};
  }
  return options;
}

// One side may lack the root, a key, or everything requested; then nothing is selected there, or, for a missing root, all keys.
struct Selected {
  std::optional<Problem> lacks;  // what is asked for
  Selection selection;
};

// Where names have no components, as in a safetensors file, a root is what they begin with.
RenameRule without_prefix(const std::string& prefix) {
  std::string regex = "^";
  for (const char c : prefix)
    regex += (std::string_view("^$\\.*+?()[]{}|").find(c) == std::string_view::npos ? "" : "\\") + std::string(1, c);
  return {.regex = std::move(regex), .replacement = ""};
}

Selected select_on(DiffSide& side, SelectOptions options) {
  Selected out;
  std::string prefix;
  const auto lies_under = [&](std::string_view key) { return key.starts_with(prefix); };
  for (int tries = 0; tries < 3; ++tries) {
    try {
      out.selection = side.try_select(options);
      std::erase_if(out.selection.entries, [&](const Entry& e) { return !lies_under(side.catalog().key(e.ref)); });
      return out;
    } catch (const Error& e) {
      const ProblemId id = e.problem().id;
      if (id != ProblemId::root_missing && id != ProblemId::key_missing && id != ProblemId::nothing_selected) throw;
      if (id == ProblemId::root_missing) {
        prefix = std::exchange(options.root, "") + ".";
        if (side.has_key(lies_under)) {
          options.renames.insert(options.renames.begin(), without_prefix(prefix));
          continue;
        }
        prefix.clear();
      }
      if (!out.lacks) out.lacks = e.problem();
      if (id == ProblemId::nothing_selected) return out;
      if (id == ProblemId::key_missing) options = with_globs(std::move(options));
    }
  }
  return out;
}

uint64_t common_keys(const Selection& a, const Selection& b) {
  std::unordered_set<std::string_view> keys;
  for (const Entry& e : a.entries) keys.insert(e.key);
  return static_cast<uint64_t>(std::ranges::count_if(b.entries, [&](const Entry& e) { return keys.contains(e.key); }));
}

// Returns rules that match no key of either side, under its own name or under the one that the map gives it.
std::vector<UnmatchedRule> map_both(const DiffRequest& request, DiffSide& a, DiffSide& b) {
  const std::vector<KeyRule>& all = request.select.rules;
  for (DiffSide* side : {&a, &b}) side->map(request.select, request.map);
  std::vector<UnmatchedRule> unmatched;
  for (const KeyRule& r : all) {
    if (a.has(r) || b.has(r) || a.makes(r) || b.makes(r)) continue;
    if (r.kind == KeyRule::Kind::kKey) fail(ProblemId::key_missing, {.path = a.catalog().path}, r.text);
    unmatched.push_back({r.kind == KeyRule::Kind::kExclude ? "exclude" : "include", r.text});
  }
  for (DiffSide* side : {&a, &b}) {
    std::vector<KeyRule> rest = all;
    if (std::erase_if(rest, [&](const KeyRule& r) { return side->has(r); }) == all.size()) continue;
    if (side->is_mapped()) side->keep_made(rest);
    else side->take(select_on(*side, with_globs(request.select)).selection);
  }
  return unmatched;
}

// New names are for both sides, or for the one alone that has the old ones: whatever makes more keys meet.
// Returns rules that match no key of either side.
std::vector<UnmatchedRule> select_both(const DiffRequest& request, DiffSide& a, DiffSide& b) {
  const SelectOptions& all = request.select;
  const auto on = [&](DiffSide& side) {
    SelectOptions options = all;
    if (request.map.is_given()) options.rules = side.rules_of_its_own(std::move(options.rules));
    return select_on(side, std::move(options));
  };
  Selected of_a = on(a), of_b = on(b);
  if (of_a.lacks && of_b.lacks && (of_a.lacks->id != ProblemId::key_missing || of_a.lacks->got == of_b.lacks->got))
    throw Error(*of_a.lacks);
  const bool renames = !all.renames.empty() || !all.rename_map.empty() || !all.add_root.empty();
  if (renames && !request.map.is_given()) {
    SelectOptions plain = all;
    plain.renames.clear();
    plain.rename_map.clear();
    plain.add_root.clear();
    Selected plain_a = select_on(a, plain), plain_b = select_on(b, plain);
    const uint64_t both = common_keys(of_a.selection, of_b.selection), only_a = common_keys(of_a.selection, plain_b.selection),
                   only_b = common_keys(plain_a.selection, of_b.selection);
    if (only_a > both && only_a >= only_b) of_b = std::move(plain_b);
    else if (only_b > both) of_a = std::move(plain_a);
  }
  std::vector<UnmatchedRule> unmatched = of_a.selection.unmatched;
  std::erase_if(unmatched, [&](const UnmatchedRule& rule) {
    return std::ranges::find(of_b.selection.unmatched, rule) == of_b.selection.unmatched.end();
  });
  a.take(std::move(of_a.selection));
  b.take(std::move(of_b.selection));
  return unmatched;
}

// --- what they hold

HeldValue held(DiffSide& side, const DiffKey& key) {
  if (key.kind == DiffKey::Kind::kObject) return {.dtype = {}, .shape = {}, .text = key.text};
  const Catalog& catalog = side.of(key.kind).catalog;
  const Tensor& t = catalog.tensors[key.tensor];
  const Dims dims = catalog.dims(t);
  return {.is_tensor = true, .dtype = std::string(catalog.strings[t.dtype_name]), .shape = {dims.begin(), dims.end()}, .text = {}};
}

// Keys of both sides that hold tensors of one shape and a dtype in common.
struct TensorKeys {
  const DiffKey *a, *b;
  DType as;
};

class Comparison {
 public:
  Comparison(const DiffRequest& request, World& world, DiffSide& a, DiffSide& b, DiffResult& result)
      : request_(request), world_(world), a_(a), b_(b), result_(result) {}

  void run() {
    const std::vector<DiffKey> of_a = a_.keys(), of_b = b_.keys();
    if (of_a.empty() && of_b.empty() && !request_.select.rules.empty()) fail(ProblemId::nothing_selected, {.path = a_.catalog().path});
    merge(of_a, of_b);
    if (!request_.keys_only) compare_values();
    std::ranges::stable_sort(result_.differences, {}, &KeyDifference::key);
  }

 private:
  using Kind = KeyDifference::Kind;
  using Keys = std::vector<DiffKey>;

  void merge(const Keys& of_a, const Keys& of_b) {
    auto a = of_a.begin();
    auto b = of_b.begin();
    while (a != of_a.end() || b != of_b.end()) {
      const int order = a == of_a.end() ? 1 : b == of_b.end() ? -1 : a->key.compare(b->key);
      if (order < 0) only(*a++, a_, b_, result_.a, Kind::kOnlyA);
      else if (order > 0) only(*b++, b_, a_, result_.b, Kind::kOnlyB);
      else both(*a++, *b++);
    }
  }

  void only(const DiffKey& key, DiffSide& side, const DiffSide& other, DiffResult::Side& reported, Kind kind) {
    const bool is_object = key.kind == DiffKey::Kind::kObject;
    if (is_object && !other.holds_objects()) return reported.not_held.push_back(key.key);
    if (is_object && key.may_be_gone && other.drops_empty()) return reported.gone.push_back(key.key);
    KeyDifference d{.kind = kind, .key = key.key, .a = {}, .b = {}, .is_state = key.is_state};
    (kind == Kind::kOnlyA ? d.a : d.b) = held(side, key);
    result_.differences.push_back(std::move(d));
  }

  void both(const DiffKey& a, const DiffKey& b) {
    const auto differ = [&](Kind kind) { result_.differences.push_back({.kind = kind, .key = a.key, .a = held(a_, a), .b = held(b_, b)}); };
    const bool object_a = a.kind == DiffKey::Kind::kObject, object_b = b.kind == DiffKey::Kind::kObject;
    ++(object_a && object_b ? result_.objects : result_.tensors);
    result_.state_of_both += a.is_state;
    if (object_a != object_b) return differ(Kind::kKind);
    if (object_a) return a.digest == b.digest ? void() : differ(Kind::kObject);
    const Catalog &in_a = a_.of(a.kind).catalog, &in_b = b_.of(b.kind).catalog;
    const Tensor &t = in_a.tensors[a.tensor], &u = in_b.tensors[b.tensor];
    if (!std::ranges::equal(in_a.dims(t), in_b.dims(u))) return differ(Kind::kShape);
    const std::optional<DType> as = common_dtype(in_a, t, in_b, u);
    if (!as) return differ(Kind::kDType);
    tensors_.push_back({&a, &b, *as});
  }

  static bool has_values(const Catalog& c, const Tensor& t) {
    return !is_quantized(c.key(t), t.dtype, [&](std::string_view key) { return c.has_key(key); });
  }

  std::optional<DType> common_dtype(const Catalog& in_a, const Tensor& a, const Catalog& in_b, const Tensor& b) const {
    if (!a.dtype_known || !b.dtype_known)
      return in_a.strings[a.dtype_name] == in_b.strings[b.dtype_name] ? std::optional(a.dtype) : std::nullopt;
    if (request_.compare_as && castable(a.dtype) && castable(b.dtype) && (request_.raw || (has_values(in_a, a) && has_values(in_b, b))))
      return request_.compare_as;
    return a.dtype == b.dtype ? std::optional(a.dtype) : std::nullopt;
  }

  // Tensors of the same two catalogs, led by the same side, are compared together.
  struct Group {
    Source lead, follow;
    bool lead_is_a = true;
    std::vector<TensorPair> pairs;
    std::vector<const TensorKeys*> keys;
    std::vector<uint32_t> pair_of;  // by key: what several share is compared once
    ComparePlan plan;
  };

  std::vector<Group> groups() {
    std::map<std::tuple<DiffKey::Kind, DiffKey::Kind, bool>, Group> all;
    std::map<std::tuple<const Group*, TensorId, TensorId>, uint32_t> numbers;
    for (const TensorKeys& k : tensors_) {
      const Source a = a_.of(k.a->kind), b = b_.of(k.b->kind);
      const bool lead_is_a = leads_by(a, k.a->tensor) >= leads_by(b, k.b->tensor);
      const auto [at, fresh] = all.try_emplace({k.a->kind, k.b->kind, lead_is_a},
                                               Group{.lead = lead_is_a ? a : b, .follow = lead_is_a ? b : a, .lead_is_a = lead_is_a});
      Group& g = at->second;
      const TensorId lead = lead_is_a ? k.a->tensor : k.b->tensor, follow = lead_is_a ? k.b->tensor : k.a->tensor;
      const auto [number, is_new] = numbers.try_emplace({&g, lead, follow}, static_cast<uint32_t>(g.pairs.size()));
      if (is_new) g.pairs.push_back({.lead = lead, .follow = follow, .as = k.as});
      g.keys.push_back(&k);
      g.pair_of.push_back(number->second);
    }
    UnitOptions units;
    units.plane_bytes = plane_bytes(request_.a.max_memory);
    std::vector<Group> out;
    for (auto& [what, g] : all) {
      g.plan = plan_compare(g.lead, g.follow, g.pairs, units);
      out.push_back(std::move(g));
    }
    return out;
  }

  void compare_values() {
    const std::vector<Group> all = groups();
    uint64_t total = 0;
    for (const Group& g : all) total += g.plan.bytes_to_read();
    Progress progress;
    const auto display = world_.events.show(progress, progress.bytes_read, total);
    for (DiffSide* side : {&a_, &b_}) side->preparation().compare_ties(reading_workers(request_.a.threads, world_, request_.a.source.path));
    for (const Group& g : all) {
      uint64_t planned = 0;
      const CompareOptions options{.workers = a_.preparation().fit(g.plan.lead, compare_worker_bytes(g.plan, g.follow), planned),
                                   .tolerance = request_.tolerance,
                                   .lead_is_a = g.lead_is_a};
      result_.planned_memory = std::max(result_.planned_memory, planned);
      take(g, compare(g.plan, {g.lead, g.follow}, options, progress, world_.stop));
    }
    result_.bytes_read = progress.bytes_read;
  }

  void take(const Group& g, CompareReport report) {
    for (size_t i = 1; i < report.damage.size(); ++i) world_.events.warn(world_.events.line_of(report.damage[i]));
    if (!report.damage.empty()) throw Error(report.damage.front());
    for (size_t i = 0; i < g.keys.size(); ++i) {
      const TensorKeys& k = *g.keys[i];
      const Catalog& catalog = a_.of(k.a->kind).catalog;
      const uint64_t elements = catalog.elements(catalog.tensors[k.a->tensor]);
      result_.elements += elements;
      result_.tensor_bytes += elements * bytes_of(catalog.tensors[k.a->tensor].dtype);
      const auto found = report.differences.find(g.pair_of[i]);
      if (found == report.differences.end()) continue;
      const ElementDifferences& values = found->second;
      result_.values.changed += values.changed;
      result_.values.differing += values.differing;
      result_.values.same_value += values.same_value;
      result_.values.non_finite += values.non_finite;
      if (values.differing == 0) continue;
      result_.differences.push_back({.kind = Kind::kValues,
                                     .key = k.a->key,
                                     .a = held(a_, *k.a),
                                     .b = held(b_, *k.b),
                                     .dtype = k.as,
                                     .elements = elements,
                                     .values = values});
    }
  }

  const DiffRequest& request_;
  World& world_;
  DiffSide &a_, &b_;
  DiffResult& result_;
  std::vector<TensorKeys> tensors_;
};

}  // namespace

bool DiffResult::model_equal() const {
  return tensors > 0 && state_of_both == 0 && !equal() &&
         std::ranges::all_of(differences, [](const KeyDifference& d) { return d.kind == KeyDifference::Kind::kOnlyA && d.is_state; });
}

uint64_t DiffResult::count(KeyDifference::Kind kind) const {
  return static_cast<uint64_t>(std::ranges::count(differences, kind, &KeyDifference::kind));
}

namespace {

// What one side is found to need is no number for both, and what objects need is known only once they are read.
template <class Fn>
void with_unknown_needs(Fn&& fn) {
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

void diff(DiffRequest request, World& world, DiffResult& result) {
  const uint64_t begin = world.io.now_ns();
  DiffSide a(request.a, world), b(request.b, world);
  const auto open = [&](DiffSide& side, DiffResult::Side& reported) {
    const OpenedCatalog& opened = side.open();
    reported.checkpoint = opened.catalog.path;
    reported.kind = opened.catalog.kind;
    note_warnings(opened, world);
  };
  with_unknown_needs([&] {
    open(a, result.a);
    open(b, result.b);
    request.select = meant_on(std::move(request.select), a, b);
    result.unmatched = select_both(request, a, b);
    if (request.map.is_given()) result.unmatched = map_both(request, a, b);
    a.resolve(request.select, b, request.keys_only);
    b.resolve(request.select, a, request.keys_only);
  });
  Comparison(request, world, a, b, result).run();
  result.nanoseconds = world.io.now_ns() - begin;
}

}  // namespace dcp
