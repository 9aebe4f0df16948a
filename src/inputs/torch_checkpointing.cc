// Checkpoints of torch_checkpointing 0.1: a file for each item and rank, and metadata.pkl (item_metadata.h), which says where those of items with
// a resharder are and how their tensors are sharded. An item is an entry of the state dict. Of other items the names say all: ITEM_RANK.pt, written
// with torch.save, or with another ending what a layout has put there: JSON, or bytes as they are. Where no item had a resharder there is no
// metadata.pkl, and only DTensors say what they are parts of.
#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "base/file_names.h"
#include "base/text.h"
#include "catalog/data_files.h"
#include "format/safetensors.h"
#include "inputs/input.h"
#include "inputs/item_layouts.h"
#include "inputs/rank_files.h"
#include "inputs/refuse.h"
#include "items/bare_pickle.h"

namespace dcp {
namespace {

constexpr std::string_view kTorchEnding = ".pt";

using Items = std::map<std::string, std::map<uint32_t, ItemFile>>;  // by item and rank

// ITEM_RANK.ext
struct Named {
  std::string item, ending;
  uint32_t rank = 0;
};
std::optional<Named> parse_name(std::string_view name) {
  const size_t dot = std::min(name.rfind('.'), name.size()), bar = name.rfind('_', dot);
  if (bar == name.npos || bar == 0) return {};
  const auto rank = decimal<uint32_t>(name.substr(bar + 1, dot - bar - 1));
  if (!rank || *rank >= kMaxRanks) return {};
  return Named{.item = std::string(name.substr(0, bar)), .ending = std::string(name.substr(dot)), .rank = *rank};
}

bool has_metadata(Found& found) {
  return found.is_folder() ? found.has_entry([](const DirEntry& e) { return e.name == kItemMetadata; })
                           : found.is_file() && found.name() == kItemMetadata;
}

// The number in the path of a file that is its rank: the last behind that word.
std::optional<NameDigits> rank_in(const std::string& path) {
  std::optional<NameDigits> found;
  for (const NameDigits& n : numbers_in(path))
    for (const std::string_view word : {"rank", "rank_", "rank-", "rank="})
      if (std::string_view(path).substr(0, n.begin).ends_with(word)) found = n;
  return found && decimal<uint32_t>(std::string_view(path).substr(found->begin, found->size)) ? found : std::nullopt;
}

// Of a file that a layout has put into a folder, such as rank_0/optim.pt: the name of the file without the rank, or that of the folder where nothing else is left of it.
Named named_by_layout(const std::string& path, const NameDigits& of_rank) {
  const size_t begin = path.rfind('/') + 1, dot = path.rfind('.');
  Named named{.rank = *decimal<uint32_t>(path.substr(of_rank.begin, of_rank.size))};
  std::string without = path.substr(begin);
  if (of_rank.begin >= begin) without.erase(of_rank.begin - begin, of_rank.size);
  if (dot != path.npos && dot > begin && dot >= of_rank.begin + of_rank.size) named.ending = path.substr(dot);
  named.item = without.substr(0, without.size() - named.ending.size());
  const auto strip = [&] {
    while (!named.item.empty() && std::string_view("_-.").find(named.item.back()) != std::string_view::npos) named.item.pop_back();
  };
  strip();
  if (of_rank.begin >= begin && named.item.ends_with("rank")) named.item.erase(named.item.size() - 4), strip();
  if (named.item.empty()) named.item = split_path(path.substr(0, begin - 1)).name;
  return named;
}

class Opening {
 public:
  explicit Opening(Found& found)
      : found_(found), store_(found.store()), path_(found.is_folder() ? found.path() : found.folder()), options_(found.options()) {}

  OpenedCatalog open() {
    const std::string name(kItemMetadata);
    const Place place{.path = path_ + "/" + name};
    const std::vector<std::byte> pickle = read_file_beneath(store_, path_, name, options_.links, options_.limits.metadata_bytes);
    const ItemMetadata metadata = read_item_metadata(pickle, place, options_.limits);
    world_size_ = metadata.world_size;
    Items items = listed(metadata);
    add_unnamed(metadata, items);
    ItemLayouts layouts(metadata);
    const std::vector<RankFile> files = files_of(items);
    if (files.empty()) fail(ProblemId::not_checkpoint, place, "no item that can be read", "a checkpoint of torch_checkpointing");
    FilesOfKind as(CheckpointKind::kTorchCheckpointing, nullptr, &layouts);
    as.missing = missing_;
    OpenedCatalog opened = open_rank_files(store_, path_, files, as, options_);
    opened.catalog.provenance.unknown_globals = metadata.globals;
    if (auto trailing = trailing_pickle(metadata.trailing_bytes, at_offset(place, pickle.size() - metadata.trailing_bytes)))
      findings_.push_back(std::move(*trailing));
    finish(opened, items);
    return opened;
  }

  // Only what DTensors say is known.
  OpenedCatalog open_without_metadata() {
    for (const DirEntry& e : found_.entries())
      if (const auto named = parse_name(e.name); named && named->ending == kTorchEnding)
        world_size_ = std::max(world_size_, named->rank + 1);
    Items items;
    add_unnamed({}, items);
    FilesOfKind as(CheckpointKind::kTorchCheckpointing);
    as.must_say_world = true;
    try {
      OpenedCatalog opened = open_rank_files(store_, path_, files_of(items), as, options_);
      finish(opened, items);
      return opened;
    } catch (const Error& e) {
      if (e.problem().id != ProblemId::torch_rank_part || e.problem().place.path != path_ || !e.problem().place.tensor.empty()) throw;
    }
    try {
      refuse(found_);
    } catch (const Error& e) {
      Problem p = e.problem();
      if (items.size() != 1)
        p.hint += std::string(p.hint.empty() ? "" : "; ") +
                  "if they are files of ranks, metadata.pkl is missing, which says how their tensors are parts";
      throw Error(std::move(p));
    }
  }

 private:
  Items listed(const ItemMetadata& metadata) {
    Items items;
    for (const DirEntry& e : found_.entries()) entries_.insert(e.name);
    for (const auto& [name, item] : metadata.items) {
      std::map<uint32_t, ItemFile> here, gone;
      for (const auto& [rank, file] : item.files) {
        named_.insert(file.name);
        if (is_there(file.name)) here.emplace(rank, file);
        else if (item.needs[rank]) gone.emplace(rank, file);
      }
      if (here.empty() && gone.empty() && !item.tensors.empty()) gone.insert(*item.files.begin());
      if (here.empty() && !gone.empty()) here.insert(gone.extract(gone.begin()));  // it is lost, as who reads the file says
      else
        for (const auto& [rank, file] : gone) missing_.push_back({.name = file.name, .rank = rank, .under = {name}});
      if (!here.empty()) items.emplace(name, std::move(here));
    }
    return items;
  }

  bool is_there(const std::string& name) {
    if (name.find('/') == name.npos) return entries_.contains(name);
    const std::optional<Handle> handle = store_.open_beneath(path_, name, options_.links);
    if (handle) const OpenFile file(store_, *handle);
    return handle.has_value();
  }

  // Files of items that the metadata does not list.
  void add_unnamed(const ItemMetadata& metadata, Items& items) {
    std::map<std::string, std::string> ending_of;
    std::vector<std::string> unexplained, in_folders;
    const auto add = [&](const std::string& path, const std::optional<Named>& named) {
      const bool is_item = named && named->rank < world_size_ && !metadata.items.contains(named->item) &&
                           ending_of.try_emplace(named->item, named->ending).first->second == named->ending &&
                           items[named->item].try_emplace(named->rank, ItemFile{.name = path, .form = form_of(path, named->ending)}).second;
      if (!is_item) unexplained.push_back(path);
      else ++unlisted_ranks_[named->item];
    };
    const bool is_listed = has_metadata(found_);
    for (const DirEntry& e : found_.entries()) {
      if (e.kind == FileKind::kDirectory && !e.link && !e.name.starts_with('.') && is_listed) list_below(e.name, in_folders);
      if (e.kind != FileKind::kDirectory && e.name != kItemMetadata && !named_.contains(e.name)) add(e.name, parse_name(e.name));
    }
    for (const std::string& path : in_folders) {
      const auto of_rank = rank_in(path);
      add(path, of_rank ? std::optional(named_by_layout(path, *of_rank)) : std::nullopt);
    }
    std::erase_if(items, [](const auto& item) { return item.second.empty(); });
    if (unexplained.empty()) return;
    findings_.push_back(make_finding(ProblemId::hf_file_ignored, Severity::kNote, {.path = path_}, joined_first(unexplained, 5)));
    findings_.back().names = std::move(unexplained);
  }

  // Files that no listed item has, in a folder and below, but for other checkpoints.
  void list_below(const std::string& folder, std::vector<std::string>& paths, unsigned levels = 4) const {
    std::vector<DirEntry> entries = store_.list(path_ + "/" + folder);
    std::erase_if(entries, [](const DirEntry& e) { return e.link || e.name.starts_with('.'); });
    if (std::ranges::any_of(entries, [](const DirEntry& e) { return is_sole_metadata_name(e.name); })) return;
    for (const DirEntry& e : entries) {
      const std::string inner = folder + "/" + e.name;
      if (e.kind == FileKind::kDirectory && levels > 1) list_below(inner, paths, levels - 1);
      if (e.kind == FileKind::kRegular && !named_.contains(inner)) paths.push_back(inner);
    }
  }

  // Another ending says nothing: a layout gives any name to any form.
  FileForm form_of(const std::string& name, const std::string& ending) {
    if (ending == kTorchEnding) return FileForm::kTorch;
    if (ending == kSafetensorsEnding) return FileForm::kSafetensors;
    if (ending == ".json") return FileForm::kJson;
    const std::optional<Handle> handle = store_.open_beneath(path_, name, options_.links);
    if (!handle) return FileForm::kRaw;
    const OpenFile file(store_, *handle);
    std::vector<std::byte> head(std::min(store_.facts(*handle).bytes, kForeignBytes));
    read_exact(store_, *handle, 0, head);
    return is_torch_file(head) ? FileForm::kTorch : FileForm::kRaw;
  }

  // By item; of each the preferred rank's first.
  std::vector<RankFile> files_of(const Items& items) {
    if (options_.prefer_rank && *options_.prefer_rank >= world_size_)
      fail(ProblemId::usage, {.path = path_, .setting = "prefer_rank"}, std::to_string(*options_.prefer_rank), "a rank that is there");
    std::vector<RankFile> files;
    for (const auto& [item, of_rank] : items) {
      std::vector<uint32_t> ranks;
      for (const auto& [rank, file] : of_rank) ranks.push_back(rank);
      if (is_lost(item, of_rank)) ranks.resize(1);
      if (const auto preferred = std::ranges::find(ranks, options_.prefer_rank.value_or(0)); preferred != ranks.end())
        std::rotate(ranks.begin(), preferred, preferred + 1);
      for (const uint32_t r : ranks) {
        const ItemFile& file = of_rank.at(r);
        files.push_back({.name = file.name,
                         .rank = r,
                         .under = {item},
                         .apart = item == "model" ? "" : "rank_" + std::to_string(r),
                         .form = file.form});
      }
    }
    return files;
  }

  // Nothing in a safetensors file says what its tensors are parts of; one rank has them whole.
  bool is_lost(const std::string& item, const std::map<uint32_t, ItemFile>& of_rank) {
    const ItemFile& first = of_rank.begin()->second;  // all have its ending
    if (first.form != FileForm::kSafetensors || !unlisted_ranks_.contains(item) || world_size_ == 1) return false;
    findings_.push_back(make_finding(ProblemId::item_format_unread, Severity::kDamage, {.path = path_ + "/" + first.name},
                                     item + ", whose tensors no metadata says the layout of"));
    findings_.back().names = {item};
    return true;
  }

  void finish(OpenedCatalog& opened, const Items& items) {
    const Catalog& catalog = opened.catalog;
    for (Problem& p : findings_)
      for (size_t n = 0; p.id == ProblemId::item_format_unread && n < catalog.order.size(); ++n)
        if (const std::string_view key = catalog.key(catalog.order[n]); key == p.names[0] || key.starts_with(p.names[0] + "."))
          p.keys.emplace_back(key);
    std::ranges::move(findings_, std::back_inserter(opened.findings));
    uint32_t& ranks = opened.catalog.provenance.ranks;
    ranks = std::max(ranks, world_size_);
    std::string form = "torch_checkpointing 0.1 layout, " + counted(ranks, "rank");
    std::vector<std::string> in_safetensors;
    for (const auto& [item, of_rank] : items)
      if (of_rank.begin()->second.form == FileForm::kSafetensors) in_safetensors.push_back(item);
    if (!in_safetensors.empty()) form += ", " + list_of(in_safetensors, 3) + " in safetensors";
    for (const auto& [item, count] : unlisted_ranks_)
      if (has_metadata(found_) && count > 1 && count < world_size_) {
        uint32_t rank = 0;
        while (items.at(item).contains(rank)) ++rank;
        opened.findings.push_back(
            make_finding(ProblemId::item_of_some_ranks, Severity::kWarning, {.path = path_},
                         item + ", which rank " + std::to_string(rank) + " lacks and " + counted(count, "rank") + " have"));
      }
    if (!has_metadata(found_)) form += ", without metadata.pkl";
    else if (!unlisted_ranks_.empty()) form += ", " + counted(unlisted_ranks_.size(), "item") + " without metadata";
    opened.catalog.provenance.written_by = std::move(form);
  }

  Found& found_;
  Store& store_;
  const std::string path_;
  const OpenOptions& options_;
  uint32_t world_size_ = 0;
  std::set<std::string> named_;                     // files of listed items
  std::map<std::string, uint32_t> unlisted_ranks_;  // of other items, how many have a file
  std::set<std::string_view> entries_;              // names in the folder
  std::vector<RankFile> missing_;
  std::vector<Problem> findings_;
};

// ITEM_0.pt and the like, or several items of other ranks, and no model that is published; or items in JSON alone, which have no tensors.
bool has_items(Found& found) {
  if (!found.is_folder()) return false;
  bool has_first = false, has_json = false, has_others = false;
  std::set<std::string> items;
  for (const DirEntry& e : found.entries()) {
    const auto named = e.kind == FileKind::kDirectory ? std::nullopt : parse_name(e.name);
    if (!named && (e.name.ends_with(kSafetensorsEnding) || e.name.ends_with(".index.json"))) return false;
    has_json = has_json || (named && named->ending == ".json");
    has_others = has_others || !named || named->ending == kSafetensorsEnding;
    if (!named || named->ending != kTorchEnding) continue;
    has_first = has_first || named->rank == 0;
    items.insert(named->item);
  }
  return has_first || items.size() > 1 || (has_json && !has_others);
}

}  // namespace

const Input torch_checkpointing_input{
    .is_at = [](Found& found) { return has_metadata(found) || has_items(found); },
    .open = [](Found& found) { return has_metadata(found) ? Opening(found).open() : Opening(found).open_without_metadata(); },
    .describes = [](std::string_view name) { return name == kItemMetadata; },
    .read_description = [](Store& store, const std::string& path,
                           const Limits& limits) { return whole_file(store, path, limits.metadata_bytes); },
    .is_file = [](std::string_view name) { return name == kItemMetadata; }};

}  // namespace dcp
