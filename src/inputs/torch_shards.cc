// A model as transformers saved it before safetensors: torch.save files, and an index that says which file holds each tensor. It is read
// like a folder of safetensors files with an index.
#include <algorithm>
#include <set>

#include "inputs/hf_index.h"
#include "inputs/rank_files.h"

namespace dcp {
namespace {

constexpr std::string_view kEnding = ".bin.index.json", kUsual = "pytorch_model.bin.index.json";

bool is_index(std::string_view name) { return name.ends_with(kEnding); }

// Finds files that belong to the index by their name, but that it does not name: pytorch_model-00003-of-00003.bin beside
// pytorch_model.bin.index.json.
void find_ignored(Found& found, const std::string& path, const std::string& index, const std::set<std::string>& named,
                  std::vector<Problem>& findings) {
  const std::string stem = index.substr(0, index.find('.'));
  for (const DirEntry& e : found.entries())
    if (e.name.starts_with(stem) && e.name.ends_with(".bin") && e.kind != FileKind::kDirectory && !named.contains(e.name))
      findings.push_back(make_finding(ProblemId::hf_file_ignored, Severity::kWarning, {.path = path + "/" + e.name}));
}

OpenedCatalog open_torch_shards(Found& found) {
  Store& store = found.store();
  const OpenOptions& options = found.options();
  const std::string path = found.is_folder() ? found.path() : found.folder();
  const std::string name = found.is_folder() ? index_of(path, found.entries(), kEnding, kUsual) : found.name();
  const Place place{.path = path + "/" + name};
  Limits left = options.limits;
  const HfIndex index = open_index(store, path, name, options, left);
  std::set<std::string> named;
  for (const auto& [tensor, file] : index.weight_map) named.insert(file);
  std::vector<RankFile> files;
  for (const std::string& file : named)
    if (const auto handle = store.open_beneath(path, file, options.links)) {
      const OpenFile opened(store, *handle);
      files.push_back({.name = file, .under = {}});
    }
  if (files.empty() && !named.empty()) fail(ProblemId::file_missing, {.path = path + "/" + *named.begin()});
  std::vector<Problem> findings;
  IndexVerdict verdict;
  const auto left_out = [&](const std::vector<std::vector<std::string>>& keys) {
    std::vector<HeldTensors> held;
    for (size_t f = 0; f < files.size(); ++f) held.push_back({.file = files[f].name, .tensors = {keys[f].begin(), keys[f].end()}});
    verdict = compare_index(index, held, place, findings);
    return verdict.dropped;
  };
  OpenedCatalog opened = open_rank_files(store, path, files, {CheckpointKind::kTorchShards, left_out}, options);
  if (!verdict.incomplete) compare_total(index, opened.catalog, place, findings);
  find_ignored(found, path, name, named, findings);
  opened.findings.insert(opened.findings.begin(), findings.begin(), findings.end());
  return opened;
}

}  // namespace

const Input torch_shards_input{.is_at =
                                   [](Found& found) {
                                     return found.is_folder() ? found.has_entry([](const DirEntry& e) { return is_index(e.name); })
                                                              : is_index(found.name());
                                   },
                               .open = open_torch_shards,
                               .describes = is_index,
                               .read_description = [](Store& store, const std::string& path,
                                                      const Limits& limits) { return whole_file(store, path, limits.json_bytes); },
                               .is_file = is_index};

}  // namespace dcp
