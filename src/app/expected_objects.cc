#include "app/expected_objects.h"

#include <functional>
#include <map>
#include <set>
#include <string_view>

#include "catalog/torch_files.h"
#include "items/inner_tensors.h"
#include "plan/dcp_layout.h"

namespace dcp {
namespace {

using Keys = std::set<std::string, std::less<>>;

bool any_below(const Keys& keys, std::string_view key) {
  const std::string below = std::string(key) + ".";
  const auto first = keys.lower_bound(below);
  return first != keys.end() && first->starts_with(below);
}

// Whether one of the keys that it lies below satisfies this.
bool any_above(std::string_view key, const std::function<bool(std::string_view)>& fits) {
  for (size_t at = key.find('.'); at != std::string_view::npos; at = key.find('.', at + 1))
    if (fits(key.substr(0, at))) return true;
  return false;
}

// An empty dict, or None in a list.
bool is_lost_by_dcp(const Catalog& catalog, BlobId blob) {
  if (!catalog.traits().in_torch_files) return false;
  const Kind kind = catalog.torch->items[catalog.item_of(blob)].value.kind;
  const bool in_list = source_path(catalog, {.ref = KeyRef::blob_at(blob), .key = {}}).back().position >= 0;
  return kind == Kind::kUnset || (kind == Kind::kNil && in_list);
}

class WrittenObjects {
 public:
  explicit WrittenObjects(const Written& written) : source_(written.source) {
    std::set<std::string_view> left_out;
    for (const KeyNote& n : written.plan.left_out) left_out.insert(n.key);
    for (const Entry& e : written.selection.entries)
      if (e.is_blob() && !left_out.contains(source_.catalog.key(e.ref))) objects_.emplace(e.key, e.blob());
    for (const auto& [key, blob] : objects_) keys.insert(key);
    if (!written.plan.keys) return;
    for (const DcpKey& k : written.plan.keys->keys)
      if (k.is_blob()) keys.insert(k.name);
  }

  // Whether one of them is a dict or list that has this in it.
  bool hold_inside(std::string_view key) {
    return any_above(key, [&](std::string_view above) {
      const auto object = objects_.find(above);
      return object != objects_.end() && inside(object->second).contains(key.substr(above.size() + 1));
    });
  }

  Keys keys;

 private:
  const Keys& inside(BlobId blob) {
    const auto [at, fresh] = inside_.try_emplace(blob);
    const ItemId item = source_.catalog.item_of(blob);
    if (!fresh || !source_.resolved.blobs.contains(source_.resolved.first_of(item))) return at->second;
    OpenObject object(source_.resolved.blob(item), item, Limits{});
    object.state.flatten_any([&](const StateDict::Leaf& leaf) { at->second.emplace(leaf.key); });
    return at->second;
  }

  const SourceFacts source_;
  std::map<std::string, BlobId, std::less<>> objects_;
  std::map<BlobId, Keys> inside_;
};

}  // namespace

ObjectKeys compare_objects(const Written& written, const Catalog& reference) {
  WrittenObjects got(written);
  const bool loses_empty = written.source.catalog.traits().has_metadata;
  const bool may_be_split = !written.plan.dcp || written.plan.dcp->for_torch < TorchTarget::kFlattensPlainDicts;
  Keys expected;
  for (BlobId b = 0; b < reference.blobs.size(); ++b)
    if (!loses_empty || !is_lost_by_dcp(reference, b)) expected.emplace(reference.key(reference.blobs[b]));
  ObjectKeys found;
  for (const std::string& key : expected)
    if (!got.keys.contains(key) && !(may_be_split && (any_below(got.keys, key) || got.hold_inside(key)))) found.missing.push_back(key);
  for (const std::string& key : got.keys) {
    const auto is_expected = [&](std::string_view above) { return expected.contains(above); };
    if (!is_expected(key) && !any_below(expected, key) && !any_above(key, is_expected)) found.additional.push_back(key);
  }
  return found;
}

}  // namespace dcp
