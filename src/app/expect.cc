#include "app/expect.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <functional>
#include <map>
#include <set>
#include <string_view>

#include "base/text.h"
#include "catalog/structure.h"
#include "catalog/torch_files.h"
#include "inputs/open.h"
#include "items/inner_tensors.h"
#include "plan/dcp_layout.h"

namespace dcp {
namespace {

constexpr uint64_t kShown = 20;  // of each kind
constexpr std::string_view kObject = "object";

// --- objects: which keys hold one

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

struct ObjectKeys {
  std::vector<std::string> missing, additional;
};
// Objects of an output against those of a reference: missing is what the reference has and the output has not. A dict that an older torch saves as
// one item has the keys of what is in it, unless the output is for a torch that looks for them one by one. What dcp.save stores nothing of, the
// output of a DCP folder need not have.
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

// --- all keys

using Counts = std::array<uint64_t, kDifferenceKinds>;
Counts counts_of(const std::vector<Difference>& all) {
  Counts counts{};
  for (const Difference& d : all) ++counts[static_cast<size_t>(d.kind)];
  return counts;
}

// A folder is a checkpoint, and so is a file with the name of one; any other file is a list.
bool is_checkpoint(Store& store, const std::string& path) {
  const std::optional<FileFacts> facts = store.facts(path);
  if (!facts) fail(ProblemId::no_such_path, {.path = path});
  if (facts->kind == FileKind::kDirectory) return true;
  return is_checkpoint_name(std::filesystem::path(path).filename().native());
}

}  // namespace

std::vector<Signature> read_reference(Store& store, const std::string& path, bool& may_lack_shards) {
  if (is_checkpoint(store, path)) {
    const OpenedCatalog opened = read_checkpoint(store, path, {});
    may_lack_shards = std::ranges::any_of(opened.findings, tells_unseen_shards);
    return signatures_of(opened.catalog);
  }
  const std::vector<std::byte> text = read_file(store, path, Limits{}.json_bytes);
  return parse_signatures(as_text(text), path);
}

namespace {

void compare(const ExpectRequest& request, const Written& result, Store& store, Expectation& found) {
  const CompareDtypes dtypes = request.dtypes ? CompareDtypes::kYes : CompareDtypes::kNo;
  const auto compare_tensors = [&](std::vector<Signature> expected) {
    found.differences = differences(signatures_of(result.source.catalog, result.selection, result.plan), std::move(expected), dtypes);
  };
  const std::string& path = request.reference;
  if (!is_checkpoint(store, path)) return compare_tensors(read_reference(store, path, found.may_lack_shards));
  const OpenedCatalog opened = read_checkpoint(store, path, {});
  found.may_lack_shards = std::ranges::any_of(opened.findings, tells_unseen_shards);
  compare_tensors(signatures_of(opened.catalog));
  if (request.tensors || opened.catalog.traits().tensors_only) return;
  ObjectKeys objects = compare_objects(result, opened.catalog);
  std::vector<Difference> missing;
  for (const std::string& key : objects.missing) missing.push_back({Difference::Kind::kMissing, escaped(key), "", std::string(kObject)});
  found.differences.insert(found.differences.begin(), missing.begin(), missing.end());
  found.additional = std::move(objects.additional);
}

void tell_additional(const Expectation& found, World& world) {
  if (found.additional.empty()) return;
  std::string names;
  for (size_t i = 0; i < found.additional.size() && i < kShown; ++i) names += (i > 0 ? ", " : "") + shortened(found.additional[i]);
  if (found.additional.size() > kShown) names += " and " + grouped(found.additional.size() - kShown) + " more";
  world.events.info(counted(found.additional.size(), "object") + " that " + escaped(found.reference) + " does not have: " + names);
}

std::string line_of(const Difference& d) {
  std::string line = std::string(word_of(d.kind)) + ": " + d.key;
  if (d.kind == Difference::Kind::kMissing) return line + " " + d.expected;
  if (d.kind == Difference::Kind::kUnexpected) return line + " " + d.got;
  return line + " (got " + d.got + ", expected " + d.expected + ")";
}

}  // namespace

std::string_view word_of(Difference::Kind kind) {
  constexpr std::string_view kWords[kDifferenceKinds] = {"missing", "unexpected", "other shape", "other dtype"};
  return kWords[static_cast<size_t>(kind)];
}

void check_expected(const ExpectRequest& request, const Written& result, World& world, Expectation& found) {
  if (request.reference.empty()) return;
  found.reference = request.reference;
  compare(request, result, world.store, found);
  tell_additional(found, world);
  refuse_differences(found, make_problem(ProblemId::expect_differs, {.path = found.reference}), world);
}

void refuse_differences(const Expectation& found, Problem p, World& world) {
  if (found.differences.empty()) return;
  const Counts counts = counts_of(found.differences);
  Counts shown{};
  for (const Difference& d : found.differences) {
    const uint64_t n = ++shown[static_cast<size_t>(d.kind)];
    if (n <= kShown) world.events.warn(line_of(d));
    else if (n == kShown + 1)
      world.events.warn("and " + grouped(counts[static_cast<size_t>(d.kind)] - kShown) + " more " + std::string(word_of(d.kind)));
  }
  p.got.clear();
  for (size_t k = 0; k < kDifferenceKinds; ++k)
    if (counts[k] > 0)
      p.got += (p.got.empty() ? "" : ", ") + grouped(counts[k]) + " " + std::string(word_of(static_cast<Difference::Kind>(k)));
  const auto is_object = [](const Difference& d) { return d.expected == kObject; };
  if (const auto objects = static_cast<uint64_t>(std::ranges::count_if(found.differences, is_object)); objects > 0)
    p.names = {counted(objects, "object")};
  throw Error(std::move(p));
}

}  // namespace dcp
