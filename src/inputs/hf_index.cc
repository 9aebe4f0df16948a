#include "inputs/hf_index.h"

#include <algorithm>
#include <set>
#include <unordered_map>

#include "base/text.h"
#include "catalog/state_dict.h"
#include "inputs/rank_files.h"
#include "inputs/refuse.h"
#include "inputs/safetensors_files.h"
#include "inputs/torch_file.h"

namespace dcp {

bool is_index_name(std::string_view name, std::string_view ending) {
  const std::string middle = std::string(ending) + ".index.";
  const size_t at = name.rfind(middle);
  if (at == std::string_view::npos) return false;
  name.remove_prefix(at + middle.size());
  return name == "json" || (name.ends_with(".json") && std::ranges::count(name, '.') == 1);
}

std::string index_of(const std::string& path, const std::vector<DirEntry>& entries, std::string_view ending, std::string_view usual) {
  std::vector<std::string> indexes;
  for (const DirEntry& e : entries)
    if (is_index_name(e.name, ending)) indexes.push_back(e.name);
  if (std::ranges::find(indexes, usual) != indexes.end()) return std::string(usual);
  if (indexes.size() <= 1) return indexes.empty() ? "" : indexes[0];
  throw Error(with_hint(make_problem(ProblemId::not_checkpoint, {.path = path}, "a folder of several checkpoints"),
                        "give one of their indexes: " + path + "/" + indexes[0] + ", " + path + "/" + indexes[1]));
}

HfIndex open_index(Store& store, const std::string& path, const std::string& index, const OpenOptions& options, Limits& left) {
  const Place place{.path = path + "/" + index};
  const std::optional<Handle> handle = store.open_beneath(path, index, options.links);
  if (!handle) fail(ProblemId::file_missing, place);
  const OpenFile file(store, *handle);
  const uint64_t bytes = store.facts(*handle).bytes;
  if (bytes > options.limits.json_bytes)
    fail(ProblemId::over_limit, place, std::to_string(bytes) + " bytes", std::to_string(options.limits.json_bytes));
  take_json_memory(bytes, place, left);
  std::vector<std::byte> json(bytes);
  read_exact(store, *handle, 0, json);
  return read_hf_index(as_text(json), place, options.limits);
}

namespace {

// Two files hold the tensor, and the copy in `kept` counts.
void add_copy(std::string_view tensor, const HeldTensors& ignored, const HeldTensors& kept, Tally& copies) {
  const auto shape_in = [&](const HeldTensors& f) { return f.shape_of ? f.shape_of(tensor) : std::string(); };
  const std::string shape = shape_in(ignored), wanted = shape_in(kept), file(ignored.file);
  if (shape == wanted) copies.add(tensor, "in " + file);
  else copies.add(tensor, "shape " + shape + " in " + file, wanted + " as in " + std::string(kept.file));
}

}  // namespace

IndexVerdict compare_index(const HfIndex& index, std::span<const HeldTensors> files, const Place& place, std::vector<Problem>& findings,
                           const std::function<std::string(const LostTensors&)>& hint_for) {
  IndexVerdict verdict;
  std::unordered_map<std::string_view, std::vector<uint32_t>> holders;
  std::unordered_map<std::string_view, uint32_t> number_of;
  for (uint32_t f = 0; f < files.size(); ++f) {
    number_of.emplace(files[f].file, f);
    for (const std::string_view tensor : files[f].tensors) holders[tensor].push_back(f);
  }
  Tally absent, elsewhere, unnamed, copies;
  LostTensors lost;
  std::unordered_map<std::string_view, std::string_view> stated;
  for (const auto& [tensor, name] : index.weight_map) {
    stated.emplace(tensor, name);
    if (holders.contains(tensor)) continue;
    if (!number_of.contains(name)) lost[name].push_back(tensor);
    else absent.add(tensor, {}, name);
  }
  for (uint32_t f = 0; f < files.size(); ++f) {
    for (const std::string_view tensor : files[f].tensors) {
      const std::vector<uint32_t>& in = holders.at(tensor);
      const auto of_index = stated.find(tensor);
      if (of_index == stated.end()) {
        if (f == in[0]) unnamed.add(tensor, std::string(files[f].file));
        continue;
      }
      if (files[f].file == of_index->second || files[f].are_shards) continue;
      const auto there = number_of.find(of_index->second);
      if (there == number_of.end() || !std::ranges::binary_search(in, there->second)) {
        elsewhere.add(tensor, std::string(files[f].file), std::string(of_index->second));
        continue;
      }
      verdict.dropped.emplace(f, tensor);
      add_copy(tensor, files[f], files[there->second], copies);
    }
  }
  const std::string folder = place.path.substr(0, place.path.rfind('/') + 1);
  const std::string hint = lost.empty() || !hint_for ? "" : hint_for(lost);
  for (const auto& [name, tensors] : lost) {
    findings.push_back(make_finding(ProblemId::file_missing, Severity::kDamage, {.path = folder + std::string(name)},
                                    counted(tensors.size(), "tensor") + " of the index"));
    findings.back().hint = hint;
    findings.back().keys.assign(tensors.begin(), tensors.end());
  }
  verdict.incomplete = !lost.empty() || absent.count() > 0;
  absent.report(ProblemId::hf_index_no_tensor, Severity::kDamage, place, findings);
  if (absent.count() > 0 && lost.empty())
    findings.back().hint = "all files that the index names are here: it is stale, or a save of them was cut short";
  elsewhere.report(ProblemId::hf_index_other_file, Severity::kWarning, place, findings);
  copies.report(ProblemId::hf_index_other_file, Severity::kWarning, place, findings);
  if (copies.count() > 0) findings.back().what = "a second copy of the tensor, in a file that the index names for others, is ignored";
  unnamed.report(ProblemId::hf_index_not_named, Severity::kWarning, place, findings);
  return verdict;
}

std::string hint_for_lost(const LostTensors& lost, const std::unordered_set<std::string>& here, const std::string& instead) {
  const auto is_here = [&](std::string_view tensor) { return here.contains(std::string(tensor)); };
  const auto are_here = [&](const auto& of_file) { return std::ranges::all_of(of_file.second, is_here); };
  if (!std::ranges::all_of(lost, are_here)) return "the folder is not complete: restore its files";
  return "the files that are here hold these tensors: the index is stale; " + instead;
}

void note_lacking(const HfIndex& index, Catalog& catalog) {
  for (const auto& [tensor, name] : index.weight_map)
    if (!catalog.has_key(tensor)) catalog.lacking.push_back(catalog.strings.intern(tensor));
}

void compare_total(const HfIndex& index, const Catalog& catalog, const Place& place, std::vector<Problem>& findings) {
  if (!index.total_bytes) return;
  uint64_t bytes = 0;
  for (const Tensor& t : catalog.tensors) bytes += catalog.tensor_bytes(t);
  if (bytes != *index.total_bytes)
    findings.push_back(
        make_finding(ProblemId::hf_index_total, Severity::kWarning, place, std::to_string(*index.total_bytes), std::to_string(bytes)));
}

// A model as transformers saved it before safetensors: torch.save files, and an index that says which file holds each tensor. It is read
// like a folder of safetensors files with an index.

namespace {

constexpr std::string_view kEnding = ".bin", kUsual = "pytorch_model.bin.index.json";

bool is_index(std::string_view name) { return is_index_name(name, kEnding); }

// Files that belong to the index by their name, but that it does not name: pytorch_model-00003-of-00003.bin beside
// pytorch_model.bin.index.json.
std::vector<std::string> ignored_files(Found& found, const std::string& index, const std::set<std::string>& named) {
  const std::string stem = index.substr(0, index.find('.'));
  std::vector<std::string> ignored;
  for (const DirEntry& e : found.entries())
    if (e.name.starts_with(stem) && e.name.ends_with(kEnding) && e.kind != FileKind::kDirectory && !named.contains(e.name))
      ignored.push_back(e.name);
  return ignored;
}

// The tensors of missing files may be in those.
std::string hint_for(const LostTensors& lost, const std::vector<std::string>& ignored, const std::string& path, Found& found) {
  std::unordered_set<std::string> here;
  try {
    for (const std::string& name : ignored) {
      const std::optional<Handle> handle = found.store().open_beneath(path, name, found.options().links);
      if (!handle) continue;
      const auto file = read_torch_file(found.store(), OpenFile(found.store(), *handle), path + "/" + name, found.options().limits);
      StateDict state(*file->graph, file->archive.pickle_place, found.options().limits);
      state.flatten([&](const StateDict::Leaf& leaf) { here.emplace(leaf.key); });
    }
  } catch (const Error&) {  // a file that no index names may be anything
    here.clear();
  }
  return hint_for_lost(lost, here, ignored.size() == 1 ? "give " + path + "/" + ignored.front() : "bring one that names these files");
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
  const std::vector<std::string> ignored = ignored_files(found, name, named);
  std::vector<Problem> findings;
  IndexVerdict verdict;
  const auto left_out = [&](const std::vector<RankFile>& readable, const std::vector<std::vector<std::string>>& keys) {
    std::vector<HeldTensors> held;
    for (size_t f = 0; f < readable.size(); ++f) held.push_back({.file = readable[f].name, .tensors = {keys[f].begin(), keys[f].end()}});
    verdict = compare_index(index, held, place, findings, [&](const LostTensors& lost) { return hint_for(lost, ignored, path, found); });
    return verdict.dropped;
  };
  OpenedCatalog opened = open_rank_files(store, path, files, {CheckpointKind::kTorchShards, left_out}, options);
  note_lacking(index, opened.catalog);
  if (!verdict.incomplete) compare_total(index, opened.catalog, place, findings);
  for (const std::string& file : ignored)
    findings.push_back(make_finding(ProblemId::hf_file_ignored, Severity::kWarning, {.path = path + "/" + file}));
  opened.findings.insert(opened.findings.begin(), findings.begin(), findings.end());
  merge_missing(opened.findings);
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
