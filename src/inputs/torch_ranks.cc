#include "inputs/torch_ranks.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <tuple>

#include "base/text.h"
#include "catalog/data_files.h"
#include "catalog/placements.h"
#include "format/safetensors.h"
#include "inputs/input.h"
#include "inputs/item_layouts.h"
#include "inputs/rank_files.h"
#include "inputs/refuse.h"
#include "items/bare_pickle.h"

namespace dcp {
namespace {

struct Named {
  std::string name, part;
  uint32_t world_size = 0, rank = 0;
};

// PART_world_size_N_rank_R.pt
std::optional<Named> parse_name(std::string_view name) {
  constexpr std::string_view kEnding = ".pt", kRank = "_rank_", kWorld = "_world_size_";
  if (!name.ends_with(kEnding)) return {};
  const std::string_view stem = name.substr(0, name.size() - kEnding.size());
  const size_t rank_at = stem.rfind(kRank), world_at = stem.rfind(kWorld, rank_at);
  if (rank_at == stem.npos || world_at == stem.npos || world_at == 0) return {};
  const auto rank = decimal<uint32_t>(stem.substr(rank_at + kRank.size()));
  const size_t number_at = world_at + kWorld.size();
  const auto world = rank_at > number_at ? decimal<uint32_t>(stem.substr(number_at, rank_at - number_at)) : std::nullopt;
  if (!rank || !world || *rank >= *world || *world > kMaxRanks) return {};
  return Named{.name = std::string(name), .part = std::string(name.substr(0, world_at)), .world_size = *world, .rank = *rank};
}

// Checks that no part has two files of a rank, or those of two worlds. Returns the files that are missing.
std::vector<RankFile> find_missing(const std::vector<Named>& files, const std::string& path) {
  std::map<std::string, std::map<uint32_t, std::string_view>> ranks;
  for (const Named& f : files) {
    if (f.world_size != files.front().world_size) {
      throw Error(
          with_hint(make_problem(ProblemId::not_checkpoint, {.path = path}, f.name + " beside " + files.front().name, "files of one save"),
                    "move the files of one world size into a folder of their own"));
    }
    const auto [known, fresh] = ranks[f.part].try_emplace(f.rank, f.name);
    if (!fresh)
      fail(ProblemId::not_checkpoint, {.path = path}, f.name + " beside " + std::string(known->second),
           "one file of rank " + std::to_string(f.rank));
  }
  ranks["model"];  // without it, the other parts are no checkpoint
  std::vector<RankFile> missing;
  for (const auto& [part, of_part] : ranks) {
    const std::string stem = part + "_world_size_" + std::to_string(files.front().world_size) + "_rank_";
    if (of_part.empty()) fail(ProblemId::file_missing, {.path = path + "/" + stem + "0.pt"});
    for (uint32_t r = 0; r < files.front().world_size; ++r)
      if (!of_part.contains(r)) missing.push_back({.name = stem + std::to_string(r) + ".pt", .rank = r, .under = {part}});
  }
  return missing;
}

// Throws file_missing, torch_rank_part, and what opening a torch.save file throws.
OpenedCatalog open_torch_ranks(Found& at) {
  const std::string& path = at.path();
  const OpenOptions& options = at.options();
  std::vector<Named> found;
  for (const DirEntry& e : at.entries())
    if (e.kind != FileKind::kDirectory)
      if (auto f = parse_name(e.name)) found.push_back(std::move(*f));
  FilesOfKind as(CheckpointKind::kTorchRanks);
  as.missing = find_missing(found, path);
  if (options.prefer_rank && *options.prefer_rank >= found.front().world_size)
    fail(ProblemId::usage, {.path = path, .setting = "prefer_rank"}, std::to_string(*options.prefer_rank), "a rank that is there");
  std::ranges::sort(found, {}, [&](const Named& f) { return std::tuple(f.part, f.rank != options.prefer_rank.value_or(0), f.rank); });
  std::vector<RankFile> files;
  for (const Named& f : found) {
    files.push_back({.name = f.name, .rank = f.rank, .under = {f.part}});
    const std::string own = "rank_" + std::to_string(f.rank);
    if (f.part == "extra_state") files.back().under.push_back(own);
    else if (f.part != "model") files.back().apart = own;
  }
  OpenedCatalog opened = open_rank_files(at.store(), path, files, as, options);
  opened.catalog.provenance.ranks = found.front().world_size;
  return opened;
}

// FSDP checkpoints of accelerate (accelerate/utils/fsdp_utils.py, 1.15) with a file for each rank: pytorch_model_fsdp_I_rankR.bin and
// optimizer_I_rankR.bin, written with torch.save, where I counts the models. Under FSDP2 tensors are DTensors, under FSDP1 ShardedTensors; how
// many ranks there were is in them alone. Keys are those of accelerate's distributed checkpoints: model.*, optimizer.state.*.
namespace accelerate {
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

OpenedCatalog open(Found& at) {
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
  as.must_say_world = as.names_say_world = true;
  OpenedCatalog opened = open_rank_files(at.store(), path, files, as, at.options());
  opened.catalog.provenance.written_by = "accelerate, per-rank files";
  return opened;
}

bool is_rank_file(std::string_view name) {
  const auto named = parse_name(name);
  return named && named->part == "model";
}

}  // namespace accelerate

}  // namespace

bool is_rank_file(std::string_view name) { return parse_name(name).has_value() || accelerate::is_rank_file(name); }

const Input torch_ranks_input{.is_at = [](Found& found) { return found.has_entry([](const DirEntry& e) { return is_rank_file(e.name); }); },
                              .open =
                                  [](Found& found) {
                                    const bool is_accelerates =
                                        found.has_entry([](const DirEntry& e) { return accelerate::is_rank_file(e.name); });
                                    return is_accelerates ? accelerate::open(found) : open_torch_ranks(found);
                                  },
                              .describes = is_rank_file};

}  // namespace dcp
