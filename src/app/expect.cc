#include "app/expect.h"

#include <algorithm>
#include <array>
#include <filesystem>

#include "base/quantity.h"
#include "catalog/structure.h"
#include "inputs/open.h"

namespace dcp {
namespace {

constexpr uint64_t kShown = 20;  // of each kind

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

std::vector<Signature> read_reference(Store& store, const std::string& path, bool& may_lack_shards) {
  if (is_checkpoint(store, path)) {
    const OpenedCatalog opened = read_checkpoint(store, path, {});
    may_lack_shards = std::ranges::any_of(opened.findings, tells_unseen_shards);
    return signatures_of(opened.catalog);
  }
  const std::vector<std::byte> text = read_file(store, path, Limits{}.json_bytes);
  return parse_signatures(as_text(text), path);
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

void check_expected(const ExpectRequest& request, std::vector<Signature> result, World& world, Expectation& found) {
  if (request.reference.empty()) return;
  found.reference = request.reference;
  std::vector<Signature> expected = read_reference(world.store, request.reference, found.may_lack_shards);
  found.differences = differences(std::move(result), std::move(expected), request.dtypes ? CompareDtypes::kYes : CompareDtypes::kNo);
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
  fail(ProblemId::expect_differs, {.path = request.reference}, std::move(got));
}

}  // namespace dcp
