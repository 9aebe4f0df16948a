#include "inputs/accelerate_ranks.h"

#include <algorithm>
#include <map>
#include <optional>
#include <tuple>

#include "base/text.h"
#include "catalog/placements.h"
#include "inputs/input.h"
#include "inputs/rank_files.h"

namespace dcp {
namespace {

struct Named {
  std::string name, part;
  uint32_t index = 0, rank = 0;
};

// PREFIX I_rank R.bin
std::optional<Named> parse_name(std::string_view name) {
  constexpr std::pair<std::string_view, std::string_view> kParts[] = {{"pytorch_model_fsdp_", "model"}, {"optimizer_", "optimizer"}};
  constexpr std::string_view kRank = "_rank", kEnding = ".bin";
  for (const auto& [prefix, part] : kParts) {
    if (!name.starts_with(prefix) || !name.ends_with(kEnding)) continue;
    const std::string_view numbers = name.substr(prefix.size(), name.size() - prefix.size() - kEnding.size());
    const size_t at = numbers.find(kRank);
    if (at == numbers.npos) return {};
    const auto index = decimal<uint32_t>(numbers.substr(0, at)), rank = decimal<uint32_t>(numbers.substr(at + kRank.size()));
    if (!index || !rank || *rank >= kMaxRanks) return {};
    return Named{.name = std::string(name), .part = std::string(part), .index = *index, .rank = *rank};
  }
  return {};
}

}  // namespace

OpenedCatalog open_accelerate_ranks(Found& at) {
  const std::string& path = at.path();
  const uint32_t preferred = at.options().prefer_rank.value_or(0);
  std::vector<Named> found;
  for (const DirEntry& e : at.entries())
    if (e.kind != FileKind::kDirectory)
      if (auto named = parse_name(e.name)) found.push_back(std::move(*named));
  std::ranges::sort(found, {}, [&](const Named& f) { return std::tuple(f.part, f.index, f.rank != preferred, f.rank, f.name); });
  std::vector<RankFile> files;
  std::map<std::pair<std::string, uint32_t>, std::string> of_rank;  // by part and rank
  uint32_t ranks = 0;
  for (const Named& f : found) {
    const std::string part = f.index == 0 ? f.part : f.part + "_" + std::to_string(f.index);
    const auto [other, fresh] = of_rank.try_emplace({part, f.rank}, f.name);
    if (!fresh)
      fail(ProblemId::not_checkpoint, {.path = path}, f.name + " beside " + other->second, "one file of rank " + std::to_string(f.rank));
    files.push_back({.name = f.name, .rank = f.rank, .under = {part}});
    if (f.part != "model") files.back().apart = "rank_" + std::to_string(f.rank);
    ranks = std::max(ranks, f.rank + 1);
  }
  if (at.options().prefer_rank && preferred >= ranks)
    fail(ProblemId::usage, {.path = path, .setting = "prefer_rank"}, std::to_string(preferred), "a rank that is there");
  FilesOfKind as(CheckpointKind::kTorchRanks);
  as.must_say_world = true;
  OpenedCatalog opened = open_rank_files(at.store(), path, files, as, at.options());
  opened.catalog.provenance.written_by = "accelerate, per-rank files";
  return opened;
}

bool is_accelerate_rank_file(std::string_view name) {
  const auto named = parse_name(name);
  return named && named->part == "model";
}

}  // namespace dcp
