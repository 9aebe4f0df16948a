#include "app/diff_side.h"

#include <algorithm>
#include <map>
#include <set>
#include <unordered_set>
#include <utility>

#include "app/memory.h"
#include "app/parts.h"
#include "catalog/structure.h"
#include "maps/names.h"
#include "select/globs.h"

namespace dcp {
namespace {

constexpr ReprCaps kCaps{.depth = 2, .length = 60, .text = 40};

// As far as they are compared, keys must be whole.
void check_compared(const OpenedCatalog& opened, const Selection& selection, const std::vector<TensorId>& tensors) {
  const Catalog& catalog = opened.catalog;
  check_kept(opened, selection);
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

// What an object is split into.
struct ObjectLeaf {
  std::string rest;      // of its key, after the object's
  StateDict::Leaf leaf;  // its path is no longer valid
  bool in_list = false;
  std::optional<DiffKey> known;  // once a key of it is kept
};

}  // namespace

Selection DiffSide::try_select(SelectOptions options) {
  const Catalog& c = prepared_.catalog();
  std::vector<KeyRule> rules;
  std::set<UnmatchedRule> reaching;  // as Selection::unmatched has them
  for (const KeyRule& r : options.rules) {
    const bool is_exclude = r.kind == KeyRule::Kind::kExclude;
    std::vector<KeyRule> objects;
    for (const KeyRef id : c.order)
      if (id.is_blob() && reaches_into(r, c.key(id))) objects.push_back({KeyRule::Kind::kKey, std::string(c.key(id))});
    const bool is_gone = r.kind == KeyRule::Kind::kKey && !has_key([&](std::string_view key) { return key == r.text; });
    if (objects.empty() || !is_gone) rules.push_back(r);
    if (objects.empty()) continue;
    reaching.insert({is_exclude ? "exclude" : "include", r.text});
    if (!is_exclude) rules.insert(rules.end(), objects.begin(), objects.end());
  }
  rules_ = std::exchange(options.rules, std::move(rules));
  Selection selection = prepared_.select(options, {}, "");
  std::erase_if(selection.unmatched, [&](const UnmatchedRule& rule) { return reaching.contains(rule); });
  return selection;
}

void DiffSide::map(const SelectOptions& options, const MapRequest& request) {
  MapRequest mine = request;
  if (request.map != "auto" && !request.from) {
    std::vector<std::string_view> keys;
    for (const Entry& e : selection_.entries)
      if (!e.is_blob()) keys.push_back(e.key);
    mine.from = maps::side_of(open_map(request.map, world_.store), keys, catalog().traits().tensors_only);
  }
  if (mine.from == maps::Side::kRight) return;
  SelectOptions own = options;
  own.rules = rules_of_its_own(std::move(own.rules));
  selection_ = prepared_.select(own, mine, "");
}

std::vector<KeyRule> DiffSide::rules_of_its_own(std::vector<KeyRule> rules) const {
  std::erase_if(rules, [&](const KeyRule& r) { return !has(r); });
  return rules;
}

bool DiffSide::has(const KeyRule& rule) const {
  const Catalog& c = catalog();
  return std::ranges::any_of(
      c.order, [&](KeyRef id) { return matches(rule, std::string(c.key(id))) || (id.is_blob() && reaches_into(rule, c.key(id))); });
}

bool DiffSide::makes(const KeyRule& rule) const {
  return is_mapped() && std::ranges::any_of(prepared_.map()->made.targets, [&](const IndexMap& m) { return matches(rule, m.key); });
}

void DiffSide::keep_made(const std::vector<KeyRule>& rules) {
  prepared_.keep_made([&](const std::string& key) { return is_kept(rules, key, key); });
}

bool DiffSide::may_lie_in_object(std::string_view word) const {
  if (!is_bare(word)) return false;
  const Catalog& c = catalog();
  return std::ranges::any_of(c.blobs, [&](const Blob& blob) {
    const std::string_view key = c.key(blob);
    return word.size() > key.size() && word.starts_with(key) && word[key.size()] == '.';
  });
}

bool DiffSide::has_key(const std::function<bool(std::string_view)>& fits) const {
  const Catalog& c = prepared_.catalog();
  return std::ranges::any_of(c.order, [&](KeyRef id) { return fits(c.key(id)); });
}

bool DiffSide::holds_objects() const { return !prepared_.map() && !catalog().traits().tensors_only; }

void DiffSide::resolve(const SelectOptions& options, const DiffSide& other, bool keys_only) {
  std::vector<TensorId> tensors;
  std::vector<BlobId> blobs;
  if (prepared_.map()) {
    tensors = prepared_.map()->sources();
  } else {
    std::unordered_set<std::string_view> theirs, objects;
    for (const Entry& e : other.selection_.entries) (e.is_blob() ? objects : theirs).insert(e.key);
    const auto may_have = [&](std::string_view key) {
      if (other.prepared_.map() || theirs.contains(key) || objects.contains(key)) return true;
      for (size_t at = key.find('.'); at != std::string_view::npos; at = key.find('.', at + 1))
        if (objects.contains(key.substr(0, at))) return true;
      return false;
    };
    for (const Entry& e : selection_.entries) {
      if (e.is_blob()) blobs.push_back(e.blob());
      else if (!keys_only && may_have(e.key)) tensors.push_back(e.tensor());
    }
  }
  limits_ = request_.source.limits();
  check_compared(prepared_.opened(), selection_, tensors);
  prepared_.resolve(tensors, blobs, Faults::kThrow, BlobUse::kPickles);
  prepared_.compare_copies(Faults::kThrow);
  selection_ = prepared_.make(options, std::move(selection_));
  inner_ = std::make_unique<InnerTensors>(prepared_.catalog(), limits_);
}

void DiffSide::add_tensor(const Entry& e, std::vector<DiffKey>& keys) {
  const Catalog& catalog = prepared_.catalog();
  const Resolved& resolved = prepared_.source().resolved;
  const Tensor& t = catalog.tensors[e.tensor()];
  std::vector<ObjectDigest> pieces;
  for (uint32_t c = 0; c < t.chunk_count; ++c) {
    const ItemId item = catalog.item_of(t, c);
    if (item >= resolved.items.size() || !resolved.items[item].opaque) continue;
    const OpenObject object(resolved.blob(item), item, limits_);
    pieces.push_back(ObjectDigester(prepared_.source().files, catalog, object, limits_).of(object.graph.root()));
  }
  if (pieces.empty()) keys.push_back({.key = std::string(e.key), .kind = DiffKey::Kind::kTensor, .tensor = e.tensor()});
  else
    keys.push_back(
        {.key = std::string(e.key), .digest = joined(pieces), .text = "a tensor of " + std::string(catalog.strings[t.dtype_name])});
}

// The keys of one item: it is read, split and digested once, whoever shares it.
void DiffSide::add_objects(ItemId item, const std::vector<const Entry*>& entries, std::vector<DiffKey>& keys) {
  OpenObject object(prepared_.source().resolved.blob(item), item, limits_);
  ObjectDigester digester(prepared_.source().files, prepared_.catalog(), object, limits_);
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
    const std::string whole(prepared_.catalog().key(e->ref));
    const std::span<const PathPart> path = selection_.path(*e);
    for (ObjectLeaf& l : leaves) {
      if (!is_kept(rules_, whole, whole + l.rest)) continue;
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

bool DiffSide::is_state(const Entry& e) const {
  return !is_mapped() && !selection_.state.models.empty() && !selection_.state.is_model(e.ref);
}

DiffKey DiffSide::known_of(const OpenObject& object, ObjectDigester& digester, const StateDict::Leaf& leaf, const std::string& key) {
  const bool is_tensor = makes_plain(leaf.tensor.kind);
  if (is_tensor && !leaf.tensor.opaque) return {.kind = DiffKey::Kind::kInnerTensor, .tensor = inner_->add(object, leaf, key)};
  return {.digest = digester.of(leaf.value), .text = object.graph.repr(leaf.value, kCaps)};
}

std::vector<DiffKey> DiffSide::keys() {
  std::vector<DiffKey> keys;
  keys.reserve(selection_.entries.size());
  std::map<ItemId, std::vector<const Entry*>> objects;
  for (const Entry& e : selection_.entries) {
    if (!e.is_blob()) {
      add_tensor(e, keys);
      keys.back().is_state = is_state(e);
    } else objects[prepared_.source().resolved.first_of(prepared_.catalog().item_of(e.blob()))].push_back(&e);
  }
  for (const auto& [item, entries] : objects) add_objects(item, entries, keys);
  inner_->end();
  std::ranges::stable_sort(keys, {}, &DiffKey::key);
  return keys;
}

}  // namespace dcp
