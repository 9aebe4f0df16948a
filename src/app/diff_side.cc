#include "app/diff_side.h"

#include <algorithm>
#include <map>
#include <set>
#include <unordered_set>
#include <utility>

#include "catalog/structure.h"
#include "maps/names.h"
#include "select/globs.h"

namespace dcp {
namespace {

constexpr ReprCaps kCaps{.depth = 2, .length = 60, .text = 40};

template <class Fits>
bool any_key(const Catalog& catalog, const Fits& fits) {
  return std::ranges::any_of(catalog.order, [&](KeyRef ref) { return fits(catalog.key(ref)); });
}

// As far as they are compared, keys must be whole.
void check_compared(const Opened& opened, const Selection& selection, const std::vector<TensorId>& tensors) {
  const Catalog& catalog = opened.catalog();
  check_kept(*opened.found, selection);
  for (const Entry& e : selection.entries)
    if (e.is_blob()) check_item(catalog, catalog.item_of(e.blob()), catalog.key(e.ref), "");
  for (const TensorId id : tensors)
    if (const Tensor& t = catalog.tensors[id]; !catalog.traits().in_torch_files || t.strided) check_whole(catalog, t);
}

// Whether a rule may be about something inside the object.
bool reaches_into(const KeyRule& rule, std::string_view object) {
  const std::string inner = std::string(object) + ".";
  const size_t end = rule.kind == KeyRule::Kind::kKey ? std::string::npos : rule.text.find_first_of("*?[\\");
  const std::string_view begin = std::string_view(rule.text).substr(0, end);
  return begin.starts_with(inner) || (end != std::string::npos && inner.starts_with(begin));
}

// The last rule counts that is about the object as a whole, or about this of it.
bool is_kept(const std::vector<KeyRule>& rules, const std::string& object, const std::string& inner) {
  bool keep = rules.empty() || rules.front().kind == KeyRule::Kind::kExclude;
  for (const KeyRule& r : rules)
    if (matches(r, object) || matches(r, inner)) keep = r.kind != KeyRule::Kind::kExclude;
  return keep;
}

// Whether this names something inside one of its objects, which may be a dict.
bool may_lie_in_object(const Catalog& catalog, std::string_view word) {
  return is_bare(word) && std::ranges::any_of(catalog.blobs, [&](const Blob& blob) {
           const std::string_view key = catalog.key(blob);
           return word.size() > key.size() && word.starts_with(key) && word[key.size()] == '.';
         });
}

// Rules also apply inside objects; that is done once they are split. Until then an object is kept whole that one of them reaches into.
Selection select_whole_objects(const Catalog& catalog, SelectOptions options) {
  std::vector<KeyRule> rules;
  std::set<UnmatchedRule> reaching;  // as Selection::unmatched has them
  for (const KeyRule& r : options.rules) {
    const bool is_exclude = r.kind == KeyRule::Kind::kExclude;
    std::vector<KeyRule> objects;
    for (const KeyRef id : catalog.order)
      if (id.is_blob() && reaches_into(r, catalog.key(id))) objects.push_back({KeyRule::Kind::kKey, std::string(catalog.key(id))});
    if (objects.empty() || r.kind != KeyRule::Kind::kKey || catalog.has_key(r.text)) rules.push_back(r);
    if (objects.empty()) continue;
    reaching.insert({is_exclude ? "exclude" : "include", r.text});
    if (!is_exclude) rules.insert(rules.end(), objects.begin(), objects.end());
  }
  options.rules = std::move(rules);
  Selection selection = select_keys(catalog, options);
  std::erase_if(selection.unmatched, [&](const UnmatchedRule& rule) { return reaching.contains(rule); });
  if (selection.entries.empty() && !catalog.order.empty()) selection.unmatched.clear();  // that says more
  return selection;
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

RenameRule without_prefix(const std::string& prefix) {
  std::string regex = "^";
  for (const char c : prefix)
    regex += (std::string_view("^$\\.*+?()[]{}|").find(c) == std::string_view::npos ? "" : "\\") + std::string(1, c);
  return {.regex = std::move(regex), .replacement = ""};
}

// The tensors that the other side may have under the same key, or in an object.
std::vector<TensorId> tensors_in_both(const Selection& selection, const DiffSide& other) {
  std::unordered_set<std::string_view> theirs, objects;
  for (const Entry& e : other.selected.selection.entries) (e.is_blob() ? objects : theirs).insert(e.key);
  const auto may_have = [&](std::string_view key) {
    if (other.is_mapped() || theirs.contains(key) || objects.contains(key)) return true;
    for (size_t at = key.find('.'); at != std::string_view::npos; at = key.find('.', at + 1))
      if (objects.contains(key.substr(0, at))) return true;
    return false;
  };
  std::vector<TensorId> tensors;
  for (const Entry& e : selection.entries)
    if (!e.is_blob() && may_have(e.key)) tensors.push_back(e.tensor());
  return tensors;
}

// What an object is split into.
struct ObjectLeaf {
  std::string rest;      // of its key, after the object's
  StateDict::Leaf leaf;  // its path is no longer valid
  bool in_list = false;
  std::optional<DiffKey> known;  // once a key of it is kept
};

}  // namespace

bool DiffSide::has(const KeyRule& rule) const {
  const Catalog& c = catalog();
  return std::ranges::any_of(
      c.order, [&](KeyRef id) { return matches(rule, std::string(c.key(id))) || (id.is_blob() && reaches_into(rule, c.key(id))); });
}

bool DiffSide::makes(const KeyRule& rule) const {
  return is_mapped() && std::ranges::any_of(selected.map->made.targets, [&](const IndexMap& m) { return matches(rule, m.key); });
}

SelectOptions meant_on(SelectOptions options, const DiffSide& a, const DiffSide& b) {
  if (options.rules.empty()) return options;
  std::vector<std::string_view> keys;
  for (const Catalog* c : {&a.catalog(), &b.catalog()})
    for (const KeyRef ref : c->order) keys.push_back(c->key(ref));
  std::vector<KeyRule> rules;
  for (KeyRule& r : meant_rules(std::move(options.rules), KnownKeys(std::move(keys)))) {
    rules.push_back(r);
    if (r.kind != KeyRule::Kind::kKey && (may_lie_in_object(a.catalog(), r.text) || may_lie_in_object(b.catalog(), r.text)))
      rules.push_back({.kind = r.kind, .text = r.text + ".*"});
  }
  options.rules = std::move(rules);
  return options;
}

Selection select_on(const DiffSide& side, SelectOptions options) {
  const Catalog& catalog = side.catalog();
  options.may_lack = true;
  Selection selection = select_whole_objects(catalog, options);
  std::optional<Problem> missing;
  if (selection.lacks && selection.lacks->id == ProblemId::key_missing) {
    missing = std::move(selection.lacks);
    options = with_globs(std::move(options));
    selection = select_whole_objects(catalog, options);
  }
  const std::string prefix = options.root + ".";
  const auto lies_under = [&](std::string_view key) { return key.starts_with(prefix); };
  if (!options.root.empty() && selection.root.empty() && any_key(catalog, lies_under)) {
    options.root.clear();
    options.renames.insert(options.renames.begin(), without_prefix(prefix));
    selection = select_whole_objects(catalog, options);
    std::erase_if(selection.entries, [&](const Entry& e) { return !lies_under(catalog.key(e.ref)); });
  }
  if (missing) selection.lacks = std::move(missing);
  return selection;
}

void DiffSide::select(const SelectOptions& options) {
  rules = options.rules;
  selected.selection = select_on(*this, options);
}

void map_side(DiffSide& side, const SelectOptions& options, const MapRequest& request, World& world) {
  MapRequest mine = request;
  if (request.map != "auto" && !request.from) {
    std::vector<std::string_view> keys;
    for (const Entry& e : side.selected.selection.entries)
      if (!e.is_blob()) keys.push_back(e.key);
    mine.from = maps::side_of(open_map(request.map, world.store), keys, side.catalog().traits().tensors_only);
  }
  if (mine.from == maps::Side::kRight) return;
  mine.whose = side.catalog().path;
  SelectOptions own = options;
  std::erase_if(own.rules, [&](const KeyRule& r) { return !side.has(r); });
  side.selected = select(side.opened, own, {.request = std::move(mine)}, world);
  if (const auto& map = side.selected.map; map && !map->stays_published && !map->keeps_names)
    world.events.info(escaped(side.catalog().path) + ": map " + escaped(map->map.name));
}

void keep_made(DiffSide& side, const std::vector<KeyRule>& rules) {
  std::erase_if(side.selected.map->made.targets, [&](const IndexMap& m) { return !is_kept(rules, m.key, m.key); });
  std::erase_if(side.selected.map->made.ties, [&](const maps::Tie& t) { return !is_kept(rules, t.tensor.key, t.tensor.key); });
}

Ready resolve_side(DiffSide& side, const DiffSide& other, const SelectOptions& options, bool keys_only, World& world) {
  const Selection& selection = side.selected.selection;
  Parts parts;
  if (side.is_mapped()) {
    parts.tensors = side.selected.map->sources();
  } else {
    if (!keys_only) parts.tensors = tensors_in_both(selection, other);
    for (const Entry& e : selection.entries)
      if (e.is_blob()) parts.blobs.push_back(e.blob());
  }
  check_compared(side.opened, selection, parts.tensors);
  Resolved resolved = resolve(side.opened, {.parts = std::move(parts)}, world);
  compare_copies(side.opened, resolved, Faults::kThrow, world);
  return make(side.opened, side.selected, std::move(resolved), options);
}

HeldKeys::HeldKeys(DiffSide the_side, Ready the_ready)
    : side(std::move(the_side)), ready(std::move(the_ready)), limits_(ready.opened.limits()), inner_(ready.catalog(), limits_) {
  const std::vector<Entry>& entries = side.selected.selection.entries;
  keys.reserve(entries.size());
  std::map<ItemId, std::vector<const Entry*>> objects;
  for (const Entry& e : entries) {
    if (!e.is_blob()) {
      add_tensor(e);
      keys.back().is_state = is_state(e);
    } else objects[ready.source().resolved.first_of(ready.catalog().item_of(e.blob()))].push_back(&e);
  }
  for (const auto& [item, of_item] : objects) add_objects(item, of_item);
  inner_.end();
  std::ranges::stable_sort(keys, {}, &DiffKey::key);
}

void HeldKeys::add_tensor(const Entry& e) {
  const Source source = ready.source();
  const Tensor& t = source.catalog.tensors[e.tensor()];
  std::vector<ObjectDigest> pieces;
  for (uint32_t c = 0; c < t.chunk_count; ++c) {
    const ItemId item = source.catalog.item_of(t, c);
    if (item >= source.resolved.items.size() || !source.resolved.items[item].opaque) continue;
    const OpenObject object(source.resolved.blob(item), item, limits_);
    pieces.push_back(ObjectDigester(source.files, source.catalog, object, limits_).of(object.graph.root()));
  }
  if (pieces.empty()) keys.push_back({.key = std::string(e.key), .kind = DiffKey::Kind::kTensor, .tensor = e.tensor()});
  else
    keys.push_back(
        {.key = std::string(e.key), .digest = joined(pieces), .text = "a tensor of " + std::string(source.catalog.strings[t.dtype_name])});
}

// The keys of one item: it is read, split and digested once, whoever shares it.
void HeldKeys::add_objects(ItemId item, const std::vector<const Entry*>& entries) {
  const Source source = ready.source();
  OpenObject object(source.resolved.blob(item), item, limits_);
  ObjectDigester digester(source.files, source.catalog, object, limits_);
  std::vector<ObjectLeaf> leaves;
  object.state.flatten_any([&](const StateDict::Leaf& leaf) {
    const bool in_list = !leaf.path.empty() && leaf.path.back().position >= 0;
    leaves.push_back({.rest = leaf.key.empty() ? "" : "." + std::string(leaf.key), .leaf = leaf, .in_list = in_list, .known = {}});
  });
  repeated_ += (entries.size() - 1) * leaves.size();
  if (const uint64_t max = entries.size() + limits_.shared_visits; entries.size() > 1 && repeated_ > max)
    fail(ProblemId::over_limit, object.blob.item.pickle_place, "keys that share objects and add up to more values",
         "at most " + std::to_string(max));
  for (const Entry* e : entries) {
    const std::string whole(source.catalog.key(e->ref));
    const std::span<const PathPart> path = side.selected.selection.path(*e);
    for (ObjectLeaf& l : leaves) {
      if (!is_kept(side.rules, whole, whole + l.rest)) continue;
      const std::string key = std::string(e->key) + l.rest;
      if (!l.known) l.known = known_of(object, digester, l.leaf, key);
      DiffKey& k = keys.emplace_back(*l.known);
      k.key = key;
      k.is_state = is_state(*e);
      const bool in_list = l.rest.empty() ? !path.empty() && path.back().position >= 0 : l.in_list;
      k.may_be_gone = k.kind == DiffKey::Kind::kObject && (l.leaf.empty_mapping || (in_list && l.leaf.value.kind == dcp::Kind::kNil));
    }
  }
}

bool HeldKeys::is_state(const Entry& e) const {
  const TrainingState& state = side.selected.selection.state;
  return !side.is_mapped() && !state.models.empty() && !state.is_model(e.ref);
}

DiffKey HeldKeys::known_of(const OpenObject& object, ObjectDigester& digester, const StateDict::Leaf& leaf, const std::string& key) {
  const bool is_tensor = makes_plain(leaf.tensor.kind);
  if (is_tensor && !leaf.tensor.opaque) return {.kind = DiffKey::Kind::kInnerTensor, .tensor = inner_.add(object, leaf, key)};
  return {.digest = digester.of(leaf.value), .text = object.graph.repr(leaf.value, kCaps)};
}

}  // namespace dcp
