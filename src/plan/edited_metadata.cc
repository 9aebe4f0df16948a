#include "plan/edited_metadata.h"

#include <algorithm>
#include <map>
#include <set>

#include "base/checked.h"
#include "catalog/data_files.h"
#include "plan/dcp_layout.h"
#include "plan/plan_metadata.h"
#include "plan/tree.h"

namespace dcp {
namespace {

[[noreturn]] void refuse(const Catalog& catalog, std::string_view key, bool is_blob, std::string why) {
  throw Error(with_remedy(
      make_problem(ProblemId::metadata_not_enough, {.path = catalog.path, .tensor = std::string(key), .object = is_blob}, std::move(why)),
      Remedy::kWriteAnew));
}

std::vector<ItemId> items_of(const Catalog& catalog, const Entry& e) {
  if (e.is_blob()) return {catalog.item_of(e.blob())};
  const Tensor& t = catalog.tensors[e.tensor()];
  std::vector<ItemId> items(t.chunk_count);
  for (uint32_t c = 0; c < t.chunk_count; ++c) items[c] = catalog.item_of(t, c);
  return items;
}

void check(const Catalog& catalog, const Selection& selection, const FlatEntries& flat) {
  refuse_collisions(catalog, flat.entries);
  if (!flat.terminal.empty()) {
    const Entry& e = flat.entries[flat.terminal.begin()->first];
    refuse(catalog, e.key, true, "torch before 2.4 looks for one object, where there is one for each of its values");
  }
  for (const Entry& e : selection.entries)
    for (const ItemId item : items_of(catalog, e))
      if (catalog.files[catalog.items[item].file].raw)
        refuse(catalog, catalog.key(e.ref), e.is_blob(), "a tensor of a safetensors file, which has its name in the file");
}

// Items stay compressed, which older releases of torch cannot read.
void need_transforms(const Catalog& catalog, const Selection& selection, const TorchTarget& target, TorchNeeded& torch) {
  constexpr unsigned kSince = 207;
  if (torch.version >= kSince) return;
  for (const Entry& e : selection.entries)
    for (const ItemId id : items_of(catalog, e)) {
      if (catalog.items[id].transforms == 0) continue;
      if (target.requested) refuse(catalog, catalog.key(e.ref), e.is_blob(), "items are compressed, which torch 2.7 and later read");
      torch.version = kSince;
      torch.raised_by.push_back({std::string(e.key), "compressed items came with torch 2.7"});
      return;
    }
}

// Makes names for the output's files: without folders, and distinct.
class FileNames {
 public:
  explicit FileNames(std::set<std::string> taken) : taken_(std::move(taken)) {}
  std::string flat(std::string_view name) {
    std::string text = base_of(name);
    return taken_.insert(text).second ? text : next(name);
  }
  // `__3_0.distcp` becomes `__3_1.distcp`: it is still a file of rank 3.
  std::string next(std::string_view name) {
    std::string stem = base_of(name.substr(0, name.rfind('.')));
    if (rank_of_file(name)) stem.resize(stem.rfind('_'));
    for (uint64_t n = 0;; ++n) {
      const std::string text = stem + "_" + std::to_string(n) + ".distcp";
      if (taken_.insert(text).second) return text;
    }
  }

 private:
  static std::string base_of(std::string_view name) { return std::string(name.substr(name.rfind('/') + 1)); }

  std::set<std::string> taken_;
};

EditedPlan begin_plan(const Catalog& catalog, const Selection& selection, const TorchTarget& target) {
  TorchNeeded torch = torch_for(catalog, selection, target);
  need_transforms(catalog, selection, target, torch);
  const FlatEntries flat =
      torch.version < TorchTarget::kFlattensPlainDicts ? flat_terminal(catalog, selection, {}) : flat_leaves(selection);
  check(catalog, selection, flat);
  EditedPlan edited;
  Plan& plan = edited.plan;
  plan.folder = true;
  DcpNotes& notes = plan.dcp.emplace();
  notes.world_size = ranks_shown(catalog);
  notes.for_torch = torch.version;
  notes.raised_by = torch.raised_by;
  for (const ExtraAttribute& a : catalog.provenance.attributes)
    if (!a.kept())
      notes.attributes_left_out.push_back({a.name, a.not_plain.empty() ? "it describes the save that made the source" : a.not_plain});
  plan.keys.emplace(name_keys(catalog, selection, flat));
  return edited;
}

// The ranges needed of each file of the catalog: offset -> bytes.
using Needed = std::vector<std::map<uint64_t, uint64_t>>;
Needed needed_of(const Catalog& catalog, const Selection& selection) {
  Needed needed(catalog.files.size());
  for (const Entry& e : selection.entries)
    for (const ItemId id : items_of(catalog, e)) {
      const Item& item = catalog.items[id];
      uint64_t& bytes = needed[item.file][item.offset];
      bytes = std::max(bytes, item.length);
    }
  return needed;
}

uint64_t bytes_of_all(const std::map<uint64_t, uint64_t>& ranges) {
  uint64_t bytes = 0;
  for (const auto& [offset, length] : ranges) bytes += length;
  return bytes;
}

// Records where each key's items lie: `place` gives the place of an item.
template <class PlaceOf>
void place_keys(const Catalog& catalog, const Selection& selection, EditedPlan& edited, PlaceOf place) {
  DcpKeys& keys = *edited.plan.keys;
  for (size_t k = 0; k < keys.keys.size(); ++k) {
    const Entry& e = selection.entries[k];
    keys.keys[k].copied = true;
    keys.keys[k].at = narrow<uint32_t>(keys.slices.size());
    for (const ItemId id : items_of(catalog, e)) keys.slices.push_back(place(catalog.items[id]));
    if (!e.is_blob()) edited.plan.tensor_bytes += catalog.tensor_bytes(catalog.tensors[e.tensor()]);
  }
}

}  // namespace

EditedPlan plan_edit(const Catalog& catalog, const Selection& selection, const TorchTarget& torch) {
  EditedPlan edited = begin_plan(catalog, selection, torch);
  const Needed needed = needed_of(catalog, selection);
  FileNames names({".metadata"});
  std::vector<uint32_t> file_of(catalog.files.size(), kNone);
  for (uint32_t f = 0; f < catalog.files.size(); ++f) {
    if (needed[f].empty()) continue;
    const uint64_t bytes = catalog.files[f].bytes.value_or(0), used = bytes_of_all(needed[f]);
    file_of[f] = narrow<uint32_t>(edited.files.size());
    edited.unreferenced += bytes - std::min(bytes, used);
    edited.plan.files.push_back({.name = names.flat(catalog.file_name(f)), .bytes = bytes, .archive = {}, .payloads = {}});
    edited.files.push_back({.source = f, .ranges = {}});
  }
  place_keys(catalog, selection, edited, [&](const Item& item) { return Slice{file_of[item.file], item.offset, item.length}; });
  return edited;
}

EditedPlan plan_compaction(const Catalog& catalog, const Selection& selection, const TorchTarget& torch,
                           const std::vector<std::string>& taken) {
  EditedPlan edited = begin_plan(catalog, selection, torch);
  const Needed needed = needed_of(catalog, selection);
  std::vector<uint64_t> items(catalog.files.size(), 0);  // bytes of all keys
  for (const Item& item : catalog.items)
    if (item.file != kNone) items[item.file] += item.length;
  FileNames names({taken.begin(), taken.end()});
  std::vector<uint32_t> file_of(catalog.files.size(), kNone);
  std::vector<std::map<uint64_t, uint64_t>> moved(catalog.files.size());  // where a range begins in the source -> in the new file
  for (uint32_t f = 0; f < catalog.files.size(); ++f) {
    if (needed[f].empty()) continue;
    file_of[f] = narrow<uint32_t>(edited.files.size());
    EditedFile& file = edited.files.emplace_back(EditedFile{.source = f, .ranges = {}});
    const uint64_t used = bytes_of_all(needed[f]);
    if (used >= items[f]) {  // nothing else is in it
      edited.plan.files.push_back(
          {.name = std::string(catalog.file_name(f)), .bytes = catalog.files[f].bytes.value_or(0), .archive = {}, .payloads = {}});
      continue;
    }
    uint64_t at = 0;
    for (const auto& [offset, bytes] : needed[f]) {
      moved[f].emplace(offset, at);
      file.ranges.push_back({offset, bytes});
      at += bytes;
    }
    edited.plan.files.push_back({.name = names.next(catalog.file_name(f)), .bytes = at, .archive = {}, .payloads = {}});
    edited.plan.bytes_to_write += at;
  }
  place_keys(catalog, selection, edited, [&](const Item& item) {
    const auto& map = moved[item.file];
    return Slice{file_of[item.file], map.empty() ? item.offset : map.at(item.offset), item.length};
  });
  return edited;
}

uint64_t metadata_bytes(const EditedPlan& edited, const Catalog& catalog) {
  uint64_t bytes = 0;
  write_plan_metadata(edited.plan, catalog, [&](std::string_view block) { bytes += block.size(); }, ItemsAre::kAsStored);
  return bytes;
}

}  // namespace dcp
