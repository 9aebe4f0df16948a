// A folder of rank-local metadata (rank_local.h): `__R.metadata` of every rank beside the files that they name.
#include <algorithm>

#include "base/decimal.h"
#include "catalog/build.h"
#include "catalog/data_files.h"
#include "format/dcp_metadata.h"
#include "inputs/dcp_metadata.h"
#include "inputs/rank_local.h"

namespace dcp {
namespace {

// The R in `__R.metadata`.
std::optional<uint32_t> rank_of(std::string_view name) {
  if (!name.starts_with("__") || !name.ends_with(kMetadata)) return std::nullopt;
  return decimal<uint32_t>(name.substr(2, name.size() - 2 - kMetadata.size()));
}

OpenedCatalog open_rank_local(Found& found) {
  Store& store = found.store();
  const std::string& path = found.path();
  const OpenOptions& options = found.options();
  std::vector<uint32_t> ranks;
  for (const DirEntry& e : found.entries())
    if (const auto rank = rank_of(e.name)) ranks.push_back(*rank);
  std::ranges::sort(ranks);
  Problem gap = make_finding(ProblemId::rank_missing, Severity::kWarning, {.path = path});
  for (uint32_t r = 0; r < ranks.size() && gap.got.empty(); ++r)
    if (ranks[r] != r) gap.got = "no __" + std::to_string(r) + ".metadata beside __" + std::to_string(ranks.back()) + ".metadata";
  if (options.prefer_rank) {
    const auto preferred = std::ranges::find(ranks, *options.prefer_rank);
    if (preferred == ranks.end())
      fail(ProblemId::usage, {.path = path, .setting = "prefer_rank"}, std::to_string(*options.prefer_rank), "a rank that is there");
    std::rotate(ranks.begin(), preferred, preferred + 1);
  }
  uint64_t all_bytes = 0;
  for (uint32_t r : ranks)
    if (const auto facts = store.facts(path + "/__" + std::to_string(r) + std::string(kMetadata))) all_bytes += facts->bytes;
  check_fits(all_bytes, path, options.limits);
  std::vector<std::deque<std::string>> texts;
  std::vector<MetadataContent> contents;
  std::vector<Problem> findings;
  for (uint32_t r : ranks) {
    const std::string name = "__" + std::to_string(r) + std::string(kMetadata), file = path + "/" + name;
    const std::optional<Handle> handle = store.open_beneath(path, name, options.links);
    if (!handle) fail(ProblemId::file_missing, {.path = file});
    HeldMetadata rank = read_metadata(store, OpenFile(store, *handle), file, options.limits);
    contents.push_back(std::move(rank.content));
    texts.push_back(std::move(rank.text));
    if (rank.trailing) findings.push_back(std::move(*rank.trailing));
  }
  const MetadataContent merged = merge_rank_local(contents, path, findings);
  check_catalog_fits(merged, path, options.limits);
  OpenedCatalog opened = build_catalog(merged, path, path, CheckpointKind::kDcpRankLocal);
  std::ranges::move(findings, std::back_inserter(opened.findings));
  if (!gap.got.empty()) opened.findings.push_back(std::move(gap));
  return opened;
}

}  // namespace

const Input rank_local_input{
    .is_at = [](Found& found) { return found.has_entry([](const DirEntry& e) { return rank_of(e.name).has_value(); }); },
    .open = open_rank_local,
    .describes = [](std::string_view name) { return rank_of(name).has_value(); },
    .read_description = read_whole_metadata};

}  // namespace dcp
