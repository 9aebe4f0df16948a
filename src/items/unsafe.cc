#include "items/unsafe.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <numeric>
#include <set>
#include <tuple>

#include "base/text.h"
#include "catalog/torch_files.h"
#include "items/bare_pickle.h"
#include "items/resolve.h"
#include "pickle/tokens.h"
#include "pickle/weights_only.h"

namespace dcp {
namespace {

// At most this many names are listed in a line: a file may hold millions.
constexpr size_t kMaxNamed = 16;

Problem warning(ProblemId id, Place place, std::string got, std::string expected = {}) {
  return make_finding(id, Severity::kWarning, std::move(place), std::move(got), std::move(expected));
}

// torch's own classes that planners put into the metadata and that only hold data. Names that these modules import (os, reduce) are not
// among them.
bool is_of_a_plan(std::string_view global) {
  for (const std::string_view module : {"torch.distributed.checkpoint.planner.", "torch.distributed.checkpoint.metadata."}) {
    if (!global.starts_with(module)) continue;
    const std::string_view name = global.substr(module.size() + global.substr(module.size()).starts_with('_'));
    return name.find('.') == std::string_view::npos && !name.empty() && name[0] >= 'A' && name[0] <= 'Z';
  }
  return global == "collections.OrderedDict" || global == "collections.defaultdict";
}

// Those of DTensors, which say where a rank's part lies (inputs/rank_shards.h), in the modules that releases since 2.1 have had them in. Nothing else in these:
// they hold functions, and a name with dots leads anywhere.
bool is_of_shards(std::string_view global) {
  constexpr std::string_view kModules[] = {"torch.distributed.tensor",
                                           "torch.distributed.tensor._api",
                                           "torch.distributed.tensor._dtensor_spec",
                                           "torch.distributed.tensor._ops._embedding_ops",
                                           "torch.distributed.tensor.placement_types",
                                           "torch.distributed._tensor",
                                           "torch.distributed._tensor.api",
                                           "torch.distributed._tensor._api",
                                           "torch.distributed._tensor.ops.embedding_ops",
                                           "torch.distributed._tensor._dtensor_spec",
                                           "torch.distributed._tensor.placement_types",
                                           "torch.distributed.device_mesh",
                                           "torch.distributed._mesh_layout"};
  constexpr std::string_view kClasses[] = {"DTensor",     "DTensorSpec", "TensorMeta",       "DeviceMesh",     "Placement",    "Shard",
                                           "Replicate",   "Partial",     "_Partial",         "_StridedShard",  "_MaskPartial", "MaskBuffer",
                                           "_MeshLayout", "_FlatLayout", "InterleavedShard", "ShardOrderEntry"};
  const size_t dot = std::min(global.rfind('.'), global.size() - 1);
  return std::ranges::find(kModules, global.substr(0, dot)) != std::end(kModules) &&
         std::ranges::find(kClasses, global.substr(dot + 1)) != std::end(kClasses);
}

void find_in_torch_file(const Catalog& catalog, uint32_t number, std::vector<Problem>& found) {
  const TorchFile& file = *catalog.torch->files[number];
  const Place whole{
      .path = catalog.file_path(number), .member = file.archive.pickle_place.member, .offset = file.archive.pickle_place.offset};
  std::set<std::string> everywhere;
  for (const auto& [module, name] : file.graph->globals()) {
    std::string global = std::string(module) + "." + std::string(name);
    if (!weights_only_allows(global) && !is_of_shards(global)) everywhere.insert(std::move(global));
  }
  if (everywhere.empty()) return;
  std::vector<bool> seen;
  std::set<std::string> reported;
  for (ItemId i = 0; i < catalog.items.size(); ++i) {
    if (catalog.items[i].file != number) continue;
    std::set<std::string> here;
    file.graph->visit(catalog.torch->items[i].value, seen, [&](const Value& v) {
      if (v.kind != Kind::kGlobal) return;
      std::string global = file.graph->global_of(v);
      if (everywhere.contains(global)) here.insert(std::move(global));
    });
    if (here.empty()) continue;
    Place place = whole;
    place.tensor = catalog.key_of_item(i);
    place.object = i >= catalog.chunk_total;
    found.push_back(unsafe_pickle(std::move(place), {here.begin(), here.end()}));
    reported.merge(here);
  }
  // Globals that no value contains in the end were run nevertheless.
  std::vector<std::string> rest;
  std::ranges::set_difference(everywhere, reported, std::back_inserter(rest));
  if (!rest.empty()) found.push_back(unsafe_pickle(whole, std::move(rest)));
}

// Only other zip tools compress storages.
void find_compressed(const Catalog& catalog, uint32_t number, std::vector<Problem>& found) {
  const BlobItem& archive = catalog.torch->files[number]->archive;
  const auto is_packed = [](const BlobItem::Storage& s) { return s.packed > 0; };
  const auto first = std::ranges::find_if(archive.storages, is_packed);
  if (first == archive.storages.end()) return;
  const auto more = std::count_if(first, archive.storages.end(), is_packed) - 1;
  found.push_back(warning(ProblemId::torch_compressed, {.path = catalog.file_path(number)},
                          "data/" + first->key + (more > 0 ? " and " + std::to_string(more) + " more" : "")));
}

}  // namespace

Problem unsafe_pickle(Place place, std::vector<std::string> globals) {
  Problem p = warning(ProblemId::pickle_unsafe, std::move(place), joined_first(globals, kMaxNamed));
  p.names = std::move(globals);
  return p;
}

Problem unseen_pickle(Place place, std::string got, uint64_t max) {
  Problem p = warning(ProblemId::pickle_unseen, std::move(place), std::move(got), "at most " + std::to_string(max));
  p.remedy = Remedy::kMoreMemory;
  return p;
}

// If dcpctl stops reading a pickle, Python still runs what comes before, or may not stop there at all.
bool tells_unsafe(ProblemId id) {
  return id == ProblemId::item_refused || id == ProblemId::item_not_tensor || id == ProblemId::legacy_trailing ||
         id_name(id).starts_with("pickle_");
}

std::vector<Problem> find_unsafe_pickles(const Catalog& catalog) {
  std::vector<Problem> found;
  std::vector<std::string> of_metadata;
  for (const std::string& g : catalog.provenance.unknown_globals)
    if (!weights_only_allows(g) && !is_of_a_plan(g)) of_metadata.push_back(g);
  const std::string name(catalog.traits().metadata_ending);
  const bool is_in_folder = catalog.traits().one_metadata && !catalog.is_metadata_given();
  const std::string file = is_in_folder ? catalog.path + "/" + name : catalog.path;
  if (!of_metadata.empty()) found.push_back(unsafe_pickle({.path = file}, std::move(of_metadata)));
  const bool in_torch_files = catalog.traits().in_torch_files && catalog.knows_items();
  for (uint32_t f = 0; in_torch_files && f < catalog.files.size(); ++f) {
    const TorchFile& read = *catalog.torch->files[f];
    find_in_torch_file(catalog, f, found);
    found.insert(found.end(), read.unloaded.begin(), read.unloaded.end());
    const PickleMachine& machine = read.graph->machine();
    const Place end = at_offset(read.archive.pickle_place, machine.pickle_bytes() - machine.trailing_bytes());
    if (auto p = trailing_pickle(machine.trailing_bytes(), end)) found.push_back(std::move(*p));
    find_compressed(catalog, f, found);
  }
  return found;
}

std::vector<Problem> find_unsafe_items(DataFiles& files, const Catalog& catalog, LookInto what, const Looking& looking,
                                       const StopFlag& stop) {
  if (!catalog.traits().has_metadata) return {};
  constexpr uint64_t kMaxItems = 64 * kMiB, kMaxPickle = kMiB;
  ResolveOptions options{.workers = what == LookInto::kAll ? looking.workers : 1,
                         .faults = Faults::kCollect,
                         .blobs = BlobUse::kNames,
                         .limits = looking.limits,
                         .memory_bytes = looking.memory_bytes};
  std::vector<TensorId> tensors;
  std::vector<BlobId> blobs;
  uint64_t bytes = 0, left_out = 0;
  if (what == LookInto::kSome) options.memory_bytes = std::min(options.memory_bytes, 4 * kMaxPickle);
  for (BlobId b = 0; b < catalog.blobs.size(); ++b) {
    if (what == LookInto::kSome && bytes > kMaxItems) {
      ++left_out;
      continue;
    }
    bytes += std::min(catalog.items[catalog.item_of(b)].length, kMaxPickle);
    blobs.push_back(b);
  }
  if (what == LookInto::kAll) {
    tensors.resize(catalog.tensors.size());
    std::iota(tensors.begin(), tensors.end(), 0u);
  }
  std::vector<Problem> found = resolve(files, tensors, blobs, options, stop).findings;
  if (what == LookInto::kAll) return found;
  std::erase_if(found, [](const Problem& p) { return !tells_unsafe(p.id) && p.id != ProblemId::blob_not_archive; });
  for (Problem& p : found)
    if (p.id == ProblemId::pickle_unseen) p.severity = Severity::kNote;
  if (left_out > 0) {
    found.push_back(warning(ProblemId::pickle_unseen, {.path = catalog.path}, std::to_string(left_out) + " objects"));
    found.back().severity = Severity::kNote;
  }
  for (Problem& p : found)
    if (p.id == ProblemId::pickle_unseen) p.remedy = Remedy::kReadAll;
  return found;
}

std::vector<UnsafePickle> fold_unsafe(std::vector<Problem>& findings) {
  const auto others =
      std::stable_partition(findings.begin(), findings.end(), [](const Problem& p) { return p.id != ProblemId::pickle_unsafe; });
  std::vector<Problem> unsafe(std::make_move_iterator(others), std::make_move_iterator(findings.end()));
  findings.erase(others, findings.end());
  std::ranges::sort(unsafe, {}, [](const Problem& p) {
    return std::tuple(std::string_view(p.place.path), p.place.offset.value_or(0), std::string_view(p.place.tensor));
  });
  std::vector<UnsafePickle> all;
  // By globals: where the first is in `findings`, and how many there are.
  std::map<std::vector<std::string>, std::pair<size_t, uint64_t>> groups;
  for (Problem& p : unsafe) {
    all.push_back({.key = p.place.tensor, .object = p.place.object, .path = p.place.path, .globals = p.names});
    const auto [group, is_first] = groups.try_emplace(p.names, findings.size(), 0);
    ++group->second.second;
    if (is_first) findings.push_back(std::move(p));
  }
  for (const auto& [globals, group] : groups)
    if (group.second > 1) findings[group.first].got += "; the same in " + std::to_string(group.second - 1) + " more";
  return all;
}

void part_errors(std::vector<Problem>& findings) {
  for (Problem& p : findings)
    if (p.severity == Severity::kDamage && class_of(p.id) == ProblemClass::kMachine) p.severity = Severity::kError;
}

}  // namespace dcp
