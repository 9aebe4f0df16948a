#include "inputs/torch_ranks.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <tuple>

#include "base/text.h"
#include "catalog/data_files.h"
#include "catalog/placements.h"
#include "inputs/input.h"
#include "inputs/rank_files.h"
#include "items/bare_pickle.h"
#include "pickle/graph.h"

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

// Checks that every part has exactly one file of each rank of one world.
void check_complete(const std::vector<Named>& files, const std::string& path) {
  std::map<std::string, std::map<uint32_t, std::string_view>> ranks;
  for (const Named& f : files) {
    if (f.world_size != files.front().world_size) {
      Problem p = make_problem(ProblemId::not_checkpoint, {.path = path}, f.name + " beside " + files.front().name, "files of one save");
      p.hint = "move the files of one world size into a folder of their own";
      throw Error(std::move(p));
    }
    const auto [known, fresh] = ranks[f.part].try_emplace(f.rank, f.name);
    if (!fresh)
      fail(ProblemId::not_checkpoint, {.path = path}, f.name + " beside " + std::string(known->second),
           "one file of rank " + std::to_string(f.rank));
  }
  ranks["model"];  // without it, the other parts are no checkpoint
  for (const auto& [part, of_part] : ranks) {
    uint32_t missing = 0;
    while (of_part.contains(missing)) ++missing;
    if (missing < files.front().world_size)
      fail(ProblemId::file_missing, {.path = path + "/" + part + "_world_size_" + std::to_string(files.front().world_size) + "_rank_" +
                                             std::to_string(missing) + ".pt"});
  }
}

// Throws file_missing, torch_rank_part, and what opening a torch.save file throws.
OpenedCatalog open_torch_ranks(Found& at) {
  const std::string& path = at.path();
  const OpenOptions& options = at.options();
  std::vector<Named> found;
  for (const DirEntry& e : at.entries())
    if (e.kind != FileKind::kDirectory)
      if (auto f = parse_name(e.name)) found.push_back(std::move(*f));
  check_complete(found, path);
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
  return open_rank_files(at.store(), path, files, CheckpointKind::kTorchRanks, options);
}

}  // namespace

bool is_rank_file(std::string_view name) { return parse_name(name).has_value(); }

const Input torch_ranks_input{.is_at = [](Found& found) { return found.has_entry([](const DirEntry& e) { return is_rank_file(e.name); }); },
                              .open = open_torch_ranks,
                              .describes = is_rank_file};

// Checkpoints of torch_checkpointing 0.1: metadata.pkl, a pickle of dicts (distributed_metadata.py), and a file for each item and rank, written
// with torch.save:
//   {"metadata": {ITEM: {"rank_to_layout_info": {RANK: None | {"file_path", "serialization_format": {"type"}}}, ...}},
//    "world_size": N, "version": "2.0"}
// None stands for ITEM_RANK.pt. Items without tensors are not listed, but their files have such names. An item is an entry of the state
// dict. The metadata also describes how its tensors are sharded, but that is read from the DTensors themselves.

namespace {

constexpr std::string_view kMetadataName = "metadata.pkl";

struct ItemFile {
  std::string name;
  std::string form{};  // "": torch.save's
};
using Items = std::map<std::string, std::map<uint32_t, ItemFile>>;  // by item and rank

class MetadataReader {
 public:
  MetadataReader(const PickleGraph& graph, const Place& place) : graph_(graph), m_(graph.machine()), place_(place) {}

  Items read() {
    const Value world = entry(graph_.root(), "world_size"), version = entry(graph_.root(), "version"),
                all = entry(graph_.root(), "metadata");
    if (world.kind != Kind::kInt || all.kind != Kind::kDict) refuse("a pickle of something else");
    if (!m_.is_text(version, "2.0"))
      refuse("version " + (version.kind == Kind::kText ? std::string(m_.text(version)) : "1.0") + " of torch_checkpointing's metadata");
    if (world.integer() < 1 || world.integer() > static_cast<int64_t>(kMaxRanks)) refuse("a world of " + m_.describe(world) + " ranks");
    world_size_ = static_cast<uint32_t>(world.integer());
    Items items;
    Value name, item;
    for (auto it = m_.items(all); it.next(name) && it.next(item);) {
      const Value layouts = entry(item, "rank_to_layout_info");
      if (name.kind != Kind::kText || layouts.kind != Kind::kDict) refuse("an item without rank_to_layout_info");
      read_item(std::string(m_.text(name)), layouts, items[std::string(m_.text(name))]);
    }
    return items;
  }
  uint32_t world_size() const { return world_size_; }

 private:
  void read_item(const std::string& item, const Value& layouts, std::map<uint32_t, ItemFile>& files) const {
    Value rank, layout;
    for (auto it = m_.items(layouts); it.next(rank) && it.next(layout);) {
      if (rank.kind != Kind::kInt || rank.integer() < 0 || rank.integer() >= world_size_) refuse("rank " + m_.describe(rank));
      ItemFile file{.name = item + "_" + std::to_string(rank.integer()) + ".pt"};
      if (layout.kind != Kind::kNil) {
        const Value path = entry(layout, "file_path");
        if (path.kind != Kind::kText) refuse("a layout without file_path");
        const Value format = entry(entry(layout, "serialization_format"), "type");
        file = {.name = std::string(m_.text(path)), .form = format.kind == Kind::kText ? std::string(m_.text(format)) : "no known form"};
        if (file.form == "TorchSerialization") file.form.clear();
      }
      files.insert_or_assign(static_cast<uint32_t>(rank.integer()), std::move(file));
    }
    for (uint32_t r = 0; r < world_size_; ++r)
      if (!files.contains(r)) refuse("no file of rank " + std::to_string(r) + " for " + item);
  }

  Value entry(const Value& dict, std::string_view name) const {
    Value key, value, found;
    if (dict.kind != Kind::kDict) return found;
    for (auto it = m_.items(dict); it.next(key) && it.next(value);)
      if (m_.is_text(key, name)) found = value;
    return found;
  }

  [[noreturn]] void refuse(std::string got) const {
    fail(ProblemId::not_checkpoint, place_, std::move(got), "metadata of torch_checkpointing, version 2.0");
  }

  const PickleGraph& graph_;
  const PickleMachine& m_;
  const Place& place_;
  uint32_t world_size_ = 0;
};

// Adds ITEM_RANK.pt of items that the metadata does not name. Files with other endings belong to layouts.
void add_unnamed(const std::vector<DirEntry>& entries, uint32_t world_size, Items& items) {
  std::set<std::string_view> named;
  for (const auto& [item, files] : items)
    for (const auto& [rank, file] : files) named.insert(file.name);
  Items found;
  for (const DirEntry& e : entries) {
    const std::string_view name = e.name;
    const size_t dot = std::min(name.rfind('.'), name.size()), bar = name.rfind('_', dot);
    if (e.kind == FileKind::kDirectory || named.contains(name) || bar == name.npos || bar == 0) continue;
    const auto rank = decimal<uint32_t>(name.substr(bar + 1, dot - bar - 1));
    const std::string form(name.substr(dot)), item(name.substr(0, bar));
    if (!rank || *rank >= world_size) continue;
    if (form == ".pt") found[item].insert_or_assign(*rank, ItemFile{.name = e.name});
    else found[item + form].insert_or_assign(*rank, ItemFile{.name = e.name, .form = form.empty() ? "no known form" : form});
  }
  for (auto& [item, files] : found) items.try_emplace(item, std::move(files));
}

std::vector<std::string> globals_of(const PickleGraph& graph) {
  std::set<std::string> names;
  for (const auto& [module, name] : graph.globals()) names.insert(std::string(module) + "." + std::string(name));
  return {names.begin(), names.end()};
}

// Why an item is left out; damage if tensors are lost. A safetensors file has the parts of one rank, and does not say which parts these
// are.
Problem left_out(const std::string& folder, const std::string& item, const ItemFile& file) {
  const bool holds_tensors = file.form.find("afetensors") != file.form.npos;
  Problem p = make_finding(ProblemId::item_format_unread, holds_tensors ? Severity::kDamage : Severity::kWarning,
                           {.path = folder + "/" + file.name}, item + ", in " + file.form);
  if (holds_tensors) p.hint = "save it with TorchSerialization; the file of each rank can be read by itself";
  return p;
}

// Items in other formats than torch.save's are left out, with a finding. Throws not_checkpoint if the pickle is something else, and what
// open_rank_files throws.
OpenedCatalog open_torch_checkpointing(Found& found) {
  Store& store = found.store();
  const std::string path = found.is_folder() ? found.path() : found.folder();
  const OpenOptions& options = found.options();
  const std::string name(kMetadataName);
  const Place place{.path = path + "/" + name};
  const std::vector<std::byte> pickle = read_file_beneath(store, path, name, options.links, options.limits.metadata_bytes);
  const PickleGraph graph(pickle, place, options.limits);
  MetadataReader reader(graph, place);
  Items items = reader.read();
  add_unnamed(found.entries(), reader.world_size(), items);
  if (options.prefer_rank && *options.prefer_rank >= reader.world_size())
    fail(ProblemId::usage, {.path = path, .setting = "prefer_rank"}, std::to_string(*options.prefer_rank), "a rank that is there");
  std::vector<RankFile> files;
  std::map<std::string, std::string> item_of;  // by file: a layout may name one file for all ranks
  std::vector<Problem> findings;
  for (auto& [item, of_rank] : items) {
    const auto other = std::ranges::find_if(of_rank, [](const auto& f) { return !f.second.form.empty(); });
    if (other != of_rank.end()) {
      findings.push_back(left_out(path, item, other->second));
      continue;
    }
    std::vector<uint32_t> ranks;
    for (const auto& [rank, file] : of_rank) ranks.push_back(rank);
    if (const auto preferred = std::ranges::find(ranks, options.prefer_rank.value_or(0)); preferred != ranks.end())
      std::rotate(ranks.begin(), preferred, preferred + 1);
    for (const uint32_t r : ranks) {
      const std::string& file = of_rank.at(r).name;
      const auto [known, fresh] = item_of.try_emplace(file, item);
      if (fresh) files.push_back({.name = file, .rank = r, .under = {item}, .apart = item == "model" ? "" : "rank_" + std::to_string(r)});
      else if (known->second != item)
        fail(ProblemId::not_checkpoint, place, file + " for " + known->second + " and for " + item, "a file for each item");
    }
  }
  if (files.empty()) fail(ProblemId::not_checkpoint, place, "no item that torch.save wrote", "a checkpoint of torch_checkpointing");
  OpenedCatalog opened = open_rank_files(store, path, files, CheckpointKind::kTorchCheckpointing, options);
  opened.catalog.provenance.unknown_globals = globals_of(graph);
  const uint64_t behind = graph.machine().trailing_bytes();
  if (auto trailing = trailing_pickle(behind, at_offset(place, pickle.size() - behind))) findings.push_back(std::move(*trailing));
  std::ranges::move(findings, std::back_inserter(opened.findings));
  return opened;
}

}  // namespace

const Input torch_checkpointing_input{
    .is_at =
        [](Found& found) {
          return found.is_folder() ? found.has_entry([](const DirEntry& e) { return e.name == kMetadataName; })
                                   : found.is_file() && found.name() == kMetadataName;
        },
    .open = open_torch_checkpointing,
    .describes = [](std::string_view name) { return name == kMetadataName; },
    .read_description = [](Store& store, const std::string& path,
                           const Limits& limits) { return whole_file(store, path, limits.metadata_bytes); },
    .is_file = [](std::string_view name) { return name == kMetadataName; }};

}  // namespace dcp
