#include "app/expect.h"

#include <algorithm>
#include <array>
#include <filesystem>

#include "base/text.h"
#include "catalog/structure.h"
#include "inputs/open.h"

namespace dcp {
namespace {

constexpr uint64_t kShown = 20;  // of each kind
constexpr std::string_view kObject = "object";

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
  // Nobody expects them of a form that has none.
  if (request.tensors || !result.holds_objects || opened.catalog.traits().tensors_only) return;
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
  if (found.differences.empty()) return;
  const Counts counts = counts_of(found.differences);
  Counts shown{};
  for (const Difference& d : found.differences) {
    const uint64_t n = ++shown[static_cast<size_t>(d.kind)];
    if (n <= kShown) world.events.warn(line_of(d));
    else if (n == kShown + 1)
      world.events.warn("and " + grouped(counts[static_cast<size_t>(d.kind)] - kShown) + " more " + std::string(word_of(d.kind)));
  }
  std::string got;
  for (size_t k = 0; k < kDifferenceKinds; ++k)
    if (counts[k] > 0) got += (got.empty() ? "" : ", ") + grouped(counts[k]) + " " + std::string(word_of(static_cast<Difference::Kind>(k)));
  Problem p = make_problem(ProblemId::expect_differs, {.path = request.reference}, std::move(got));
  const auto is_object = [](const Difference& d) { return d.expected == kObject; };
  if (const auto objects = static_cast<uint64_t>(std::ranges::count_if(found.differences, is_object)); objects > 0)
    p.names = {counted(objects, "object")};
  throw Error(std::move(p));
}

}  // namespace dcp
