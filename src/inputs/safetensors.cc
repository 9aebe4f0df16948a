#include "inputs/safetensors.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>
#include <unordered_map>
#include <unordered_set>

#include "base/decimal.h"
#include "base/quantity.h"
#include "catalog/build.h"
#include "catalog/cover.h"
#include "inputs/at_once.h"
#include "inputs/foreign.h"
#include "inputs/input.h"
#include "inputs/safetensors_files.h"

namespace dcp {
namespace {

constexpr std::string_view kUsualIndex = "model.safetensors.index.json";

OpenedCatalog catalog_of(const std::vector<SafetensorsFile>& files, const std::string& path, const std::string& folder,
                         CheckpointKind kind) {
  ShardMerger merger(files);
  OpenedCatalog opened = build_catalog(merger.merge(), path, folder, kind);
  opened.catalog.provenance = {};
  for (DataFile& f : opened.catalog.files) f.raw = true;
  return opened;
}

// Of each file, or nullopt where there is none.
std::vector<std::optional<SafetensorsFile>> read_headers(Store& store, const std::string& path, const std::vector<std::string>& names,
                                                         FollowLinks links, Limits& left) {
  std::vector<std::optional<SafetensorsFile>> found(names.size());
  read_at_once(store, path, names.size(), left, [&](size_t n, Limits& share) {
    const std::optional<Handle> handle = store.open_beneath(path, names[n], links);
    if (!handle) return;
    const OpenFile file(store, *handle);
    found[n] = read_safetensors_file(store, {*handle, names[n], {.path = path + "/" + names[n]}}, share);
  });
  return found;
}

// Several facts of one kind as one finding: 10^5 lines would hide the rest.
class Tally {
 public:
  void add(std::string_view tensor, std::string got = {}, std::string expected = {}) {
    if (count_++ > 0) return;
    tensor_ = tensor;
    got_ = std::move(got);
    expected_ = std::move(expected);
  }
  uint64_t count() const { return count_; }
  void report(ProblemId id, Severity severity, Place place, std::vector<Problem>& findings) const {
    if (count_ == 0) return;
    place.tensor = tensor_;
    std::string got = got_;
    if (count_ > 1) got += (got.empty() ? "" : ", ") + std::string("and ") + std::to_string(count_ - 1) + " more";
    findings.push_back(make_finding(id, severity, std::move(place), std::move(got), expected_));
  }

 private:
  uint64_t count_ = 0;
  std::string tensor_, got_, expected_;
};

// --- with an index

class IndexedFolder {
 public:
  IndexedFolder(Store& store, const std::string& path, const std::string& index, const OpenOptions& options)
      : store_(store), path_(path), options_(options), left_(options.limits), index_place_{.path = path + "/" + index} {
    const std::optional<Handle> handle = store.open_beneath(path, index, options.links);
    if (!handle) fail(ProblemId::file_missing, index_place_);
    const OpenFile file(store, *handle);
    const uint64_t bytes = store.facts(*handle).bytes;
    if (bytes > options.limits.json_bytes)
      fail(ProblemId::over_limit, index_place_, std::to_string(bytes) + " bytes", std::to_string(options.limits.json_bytes));
    take_json_memory(bytes, index_place_, left_);
    std::vector<std::byte> json(bytes);
    read_exact(store, *handle, 0, json);
    index_ = read_hf_index(as_text(json), index_place_, options.limits);
    for (const auto& [tensor, name] : index_.weight_map) stated_.emplace(tensor, name);
  }

  OpenedCatalog open(const std::vector<DirEntry>& entries) {
    read_files();
    compare(entries);
    OpenedCatalog opened = catalog_of(files_, path_, path_, CheckpointKind::kHf);
    compare_total(opened.catalog);
    for (const DirEntry& e : entries)
      if (e.name.ends_with(kSafetensorsEnding) && e.kind == FileKind::kRegular && !named_.contains(e.name))
        findings_.push_back(make_finding(ProblemId::hf_file_ignored, Severity::kWarning, {.path = path_ + "/" + e.name}));
    opened.findings.insert(opened.findings.begin(), findings_.begin(), findings_.end());
    return opened;
  }

 private:
  void read_files() {
    for (const auto& [tensor, name] : index_.weight_map) named_.insert(name);
    const std::vector<std::string> names(named_.begin(), named_.end());
    auto found = read_headers(store_, path_, names, options_.links, left_);
    size_t n = 0;
    for (const std::string_view name : named_) {
      if (auto& file = found[n++]) files_.push_back(std::move(*file));
      else gone_.insert(name);
    }
  }

  // What the index says against what the files hold. Of a tensor in two files the index decides.
  void compare(const std::vector<DirEntry>& entries) {
    std::unordered_map<std::string_view, std::vector<uint32_t>> holders;
    for (uint32_t f = 0; f < files_.size(); ++f)
      for (const SafetensorsEntry& e : files_[f].header.entries) holders[e.name].push_back(f);
    Tally absent, elsewhere, unnamed, copies;
    std::map<std::string_view, std::vector<std::string_view>> lost;  // by file
    for (const auto& [tensor, name] : index_.weight_map) {
      const auto held = holders.find(tensor);
      if (held == holders.end() && gone_.contains(name)) lost[name].push_back(tensor);
      else if (held == holders.end()) absent.add(tensor, {}, name);
    }
    std::set<std::pair<uint32_t, std::string>> dropped;
    std::unordered_map<std::string_view, uint32_t> number_of;
    for (uint32_t f = 0; f < files_.size(); ++f) number_of.emplace(files_[f].name, f);
    for (uint32_t f = 0; f < files_.size(); ++f) {
      for (const SafetensorsEntry& e : files_[f].header.entries) {
        const std::vector<uint32_t>& in = holders.at(e.name);
        const auto stated = stated_.find(e.name);
        if (stated == stated_.end()) {
          if (f == in[0]) unnamed.add(e.name, files_[f].name);
          continue;
        }
        // Of a tensor in several shards the index can name one file only.
        if (files_[f].name == stated->second || files_[f].sharding) continue;
        const auto there = number_of.find(stated->second);
        if (there == number_of.end() || !std::ranges::binary_search(in, there->second)) {
          elsewhere.add(e.name, files_[f].name, std::string(stated->second));
          continue;
        }
        dropped.emplace(f, e.name);
        const std::vector<int64_t>& kept = std::ranges::find(files_[there->second].header.entries, e.name, &SafetensorsEntry::name)->shape;
        if (kept == e.shape) copies.add(e.name, "in " + files_[f].name);
        else copies.add(e.name, "shape " + shape_text(e.shape) + " in " + files_[f].name, shape_text(kept) + " as in " + std::string(stated->second));
      }
    }
    drop(dropped);
    const std::string hint = lost.empty() ? "" : hint_for(lost, entries);
    for (const auto& [name, tensors] : lost) {
      findings_.push_back(make_finding(ProblemId::file_missing, Severity::kDamage, {.path = path_ + "/" + std::string(name)},
                                       counted(tensors.size(), "tensor") + " of the index"));
      findings_.back().hint = hint;
    }
    incomplete_ = !lost.empty() || absent.count() > 0;
    absent.report(ProblemId::hf_index_no_tensor, Severity::kDamage, index_place_, findings_);
    elsewhere.report(ProblemId::hf_index_other_file, Severity::kWarning, index_place_, findings_);
    copies.report(ProblemId::hf_index_other_file, Severity::kWarning, index_place_, findings_);
    if (copies.count() > 0) findings_.back().what = "a second copy of the tensor, in a file that the index names for others, is ignored";
    unnamed.report(ProblemId::hf_index_not_named, Severity::kWarning, index_place_, findings_);
  }

  // Tensors of files that are gone may be in others, which the index does not name.
  std::string hint_for(const std::map<std::string_view, std::vector<std::string_view>>& lost, const std::vector<DirEntry>& entries) {
    std::vector<std::string> names;
    for (const DirEntry& e : entries)
      if (e.name.ends_with(kSafetensorsEnding) && e.kind == FileKind::kRegular && !named_.contains(e.name)) names.push_back(e.name);
    std::unordered_set<std::string> here;
    try {
      for (const auto& file : read_headers(store_, path_, names, options_.links, left_))
        for (const SafetensorsEntry& e : file ? file->header.entries : std::vector<SafetensorsEntry>()) here.insert(e.name);
    } catch (const Error&) {  // what no index names may be anything
      here.clear();
    }
    const auto is_here = [&](std::string_view tensor) { return here.contains(std::string(tensor)); };
    for (const auto& [name, tensors] : lost)
      if (!std::ranges::all_of(tensors, is_here)) return "the folder is not complete: restore its files";
    return "the files that are here hold these tensors: the index is stale; " +
           (names.size() == 1 ? "give " + path_ + "/" + names.front() : "without " + index_place_.path + " they are read as they are");
  }

  void drop(const std::set<std::pair<uint32_t, std::string>>& dropped) {
    for (uint32_t f = 0; f < files_.size() && !dropped.empty(); ++f)
      std::erase_if(files_[f].header.entries, [&](const SafetensorsEntry& e) { return dropped.contains({f, e.name}); });
  }

  void compare_total(const Catalog& catalog) {
    if (!index_.total_bytes || incomplete_) return;
    uint64_t bytes = 0;
    for (const Tensor& t : catalog.tensors) bytes += catalog.tensor_bytes(t);
    if (bytes != *index_.total_bytes)
      findings_.push_back(make_finding(ProblemId::hf_index_total, Severity::kWarning, index_place_, std::to_string(*index_.total_bytes),
                                       std::to_string(bytes)));
  }

  Store& store_;
  const std::string& path_;
  const OpenOptions& options_;
  Limits left_;  // of memory
  const Place index_place_;
  HfIndex index_;
  std::unordered_map<std::string_view, std::string_view> stated_;
  std::set<std::string_view, std::less<>> named_;  // files
  std::set<std::string_view, std::less<>> gone_;
  std::vector<SafetensorsFile> files_;
  std::vector<Problem> findings_;
  bool incomplete_ = false;
};

// --- without one

// [shard-RRRRR-]PREFIX-NNNNN-of-MMMMM.safetensors, as transformers and torch's _hf_utils.py number files.
struct Numbered {
  std::string prefix;
  uint32_t rank = 0;  // from 1; 0: none
  uint32_t number = 0, of = 0;
};
std::optional<Numbered> numbered(std::string_view name) {
  name.remove_suffix(kSafetensorsEnding.size());
  Numbered n;
  const size_t of = name.rfind("-of-");
  if (of == std::string_view::npos || of == 0) return std::nullopt;
  const size_t dash = name.rfind('-', of - 1);
  if (dash == std::string_view::npos) return std::nullopt;
  const auto number = decimal<uint32_t>(name.substr(dash + 1, of - dash - 1)), count = decimal<uint32_t>(name.substr(of + 4));
  if (!number || !count) return std::nullopt;
  n.number = *number;
  n.of = *count;
  name = name.substr(0, dash);
  constexpr std::string_view kShard = "shard-";
  const size_t after = name.find('-', kShard.size());
  if (name.starts_with(kShard) && after != std::string_view::npos) {
    if (const auto rank = decimal<uint32_t>(name.substr(kShard.size(), after - kShard.size()))) {
      n.rank = *rank;
      name.remove_prefix(after + 1);
    }
  }
  n.prefix = name;
  return n;
}

std::string padded(uint32_t number) {
  const std::string digits = std::to_string(number);
  return std::string(5 - std::min<size_t>(digits.size(), 5), '0') + digits;
}

// A number that no file has. Of MMMMM files of one process each holds tensors, so one that is missing takes them along: damage. Of files
// that ranks wrote, a rank may have had nothing to write (another saved its replicas), but nothing in the others shows it: a warning. What
// a missing one held of tensors that others hold, too, is a hole, or it was at the end of a tensor: there only a rank without elements,
// which torch writes down with its offsets, shows how large the tensor is. So nothing shows that the last rank is there.
void find_gaps(const std::vector<std::string>& names, const std::string& path, std::vector<Problem>& findings) {
  struct Group {
    std::set<uint32_t> numbers;
    bool by_ranks = false;
  };
  std::map<std::pair<std::string, uint32_t>, Group> groups;
  std::set<uint32_t> ranks;
  std::set<std::tuple<std::string, uint32_t, uint32_t>> shards;  // prefix, number, rank
  for (const std::string& name : names) {
    const std::optional<Numbered> n = numbered(name);
    if (!n) continue;
    Group& group = groups[{n->prefix, n->of}];
    group.numbers.insert(n->number);
    if (n->rank == 0) continue;
    group.by_ranks = true;
    ranks.insert(n->rank);
    shards.insert({n->prefix, n->number, n->rank});
  }
  bool has_gap = false;
  const auto gap = [&](std::string got) {
    has_gap = true;
    findings.push_back(make_finding(ProblemId::shard_gap, Severity::kWarning, {.path = path}, std::move(got)));
  };
  for (const auto& [name, group] : groups) {
    const auto& [prefix, of] = name;
    uint32_t next = 1;
    while (group.numbers.contains(next)) ++next;
    if (next > of) continue;
    std::string got = "no " + prefix + "-" + padded(next) + "-of-" + padded(of);
    if (group.by_ranks) gap(std::move(got));
    else findings.push_back(make_finding(ProblemId::shard_file_missing, Severity::kDamage, {.path = path}, std::move(got)));
  }
  if (ranks.empty()) return;
  uint32_t next = 1;
  while (ranks.contains(next)) ++next;
  const std::string last = padded(*ranks.rbegin());
  if (next < *ranks.rbegin()) return gap("no shard-" + padded(next) + " beside shard-" + last);
  for (const auto& [name, group] : groups) {
    const auto& [prefix, of] = name;
    for (const uint32_t number : group.numbers) {
      if (!shards.contains({prefix, number, 1}) && !shards.contains({prefix, number, *ranks.rbegin()}))
        continue;  // else all ranks have it, or it ends here
      for (const uint32_t rank : ranks)
        if (!shards.contains({prefix, number, rank}) && shards.contains({prefix, number, rank == 1 ? *ranks.rbegin() : 1}))
          return gap("no shard-" + padded(rank) + "-" + prefix + "-" + padded(number) + "-of-" + padded(of) +
                     " beside other ranks' shards of it");
    }
  }
  if (!has_gap)
    findings.push_back(make_finding(ProblemId::shard_count_unknown, Severity::kNote, {.path = path}, "shard-00001 to shard-" + last));
}

OpenedCatalog open_all(Store& store, const std::string& path, const std::vector<std::string>& names, const OpenOptions& options) {
  Limits left = options.limits;
  std::vector<SafetensorsFile> files;
  for (std::optional<SafetensorsFile>& file : read_headers(store, path, names, options.links, left)) {
    if (!file) fail(ProblemId::file_missing, {.path = path + "/" + names[files.size()]});
    files.push_back(std::move(*file));
  }
  OpenedCatalog opened = catalog_of(files, path, path, CheckpointKind::kHf);
  find_gaps(names, path, opened.findings);
  return opened;
}

// torch 2.15 writes 0.0 for every tensor without dims when it consolidates; the shards that it did this from are kept in sharded/.
void doubt_scalars(Store& store, OpenedCatalog& opened) {
  const Catalog& catalog = opened.catalog;
  const std::string sharded = catalog.folder + "/sharded";
  const auto facts = store.facts(sharded);
  if (!facts || facts->kind != FileKind::kDirectory) return;
  const auto entries = store.list(sharded);
  if (std::ranges::none_of(entries, [](const DirEntry& e) { return e.name.starts_with("shard-") && e.name.ends_with(kSafetensorsEnding); }))
    return;
  Tally scalars;
  for (const Tensor& t : catalog.tensors)
    if (t.rank == 0) scalars.add(catalog.key(t));
  scalars.report(ProblemId::hf_scalars_doubtful, Severity::kWarning, {.path = catalog.path}, opened.findings);
}

OpenedCatalog open_safetensors_file(Found& found) {
  const OpenFile file(found.store(), found.store().open_read(found.path()));
  std::vector<SafetensorsFile> files;
  Limits left = found.options().limits;
  files.push_back(read_safetensors_file(found.store(), {file.get(), found.name(), {.path = found.path()}}, left));
  OpenedCatalog opened = catalog_of(files, found.path(), found.folder(), CheckpointKind::kSafetensors);
  opened.catalog.single_file = true;
  return opened;
}

// The folder's index: model.safetensors.index.json, else the only file with that ending; "" if there is none. Throws not_checkpoint for
// several.
std::string index_of(const std::string& path, const std::vector<DirEntry>& entries) {
  std::vector<std::string> indexes;
  for (const DirEntry& e : entries)
    if (e.name.ends_with(kIndexEnding)) indexes.push_back(e.name);
  if (std::ranges::find(indexes, kUsualIndex) != indexes.end()) return std::string(kUsualIndex);
  if (indexes.size() <= 1) return indexes.empty() ? "" : indexes[0];
  Problem p = make_problem(ProblemId::not_checkpoint, {.path = path}, "a folder of several checkpoints");
  p.hint = "give one of their indexes: " + path + "/" + indexes[0] + ", " + path + "/" + indexes[1];
  throw Error(std::move(p));
}

// A folder that holds safetensors files, given itself or as its index. With an index, the checkpoint is the files that it names, and
// contradictions between index and files become findings; a tensor that no file holds and a missing file are damage. Without one, it is all
// files: plain ones are one checkpoint (a download without its index) as long as no tensor name occurs twice, since then it is unclear which
// one is meant.
OpenedCatalog open_safetensors_folder(Found& found) {
  Store& store = found.store();
  const OpenOptions& options = found.options();
  const std::string path = found.is_folder() ? found.path() : found.folder();
  const std::string index = found.is_folder() ? index_of(path, found.entries()) : found.name();
  std::vector<std::string> names;
  for (const DirEntry& e : found.entries())
    if (e.name.ends_with(kSafetensorsEnding) && e.kind != FileKind::kDirectory) names.push_back(e.name);
  if (names.size() > options.limits.shard_files)
    fail(ProblemId::over_limit, {.path = path}, std::to_string(names.size()) + " files",
         "at most " + std::to_string(options.limits.shard_files));
  OpenedCatalog opened =
      index.empty() ? open_all(store, path, names, options) : IndexedFolder(store, path, index, options).open(found.entries());
  doubt_scalars(store, opened);
  return opened;
}

bool describes_safetensors(std::string_view name) { return name.ends_with(kSafetensorsEnding) || name.ends_with(kIndexEnding); }

// The file up to the end of its header, and at least enough to recognize its kind.
Description read_header(Store& store, const std::string& path, const Limits& limits) {
  if (path.ends_with(kIndexEnding)) return whole_file(store, path, limits.json_bytes);
  const OpenFile file(store, store.open_read(path));
  const uint64_t size = store.facts(file.get()).bytes;
  const auto up_to = [&](uint64_t bytes) {
    std::vector<std::byte> head(std::min(bytes, size));
    read_exact(store, file.get(), 0, head);
    return head;
  };
  const std::vector<std::byte> length = up_to(sizeof(uint64_t));
  // A wrong length is refused when the file is opened.
  const uint64_t header = length.size() == sizeof(uint64_t) ? std::min<uint64_t>(load_le<uint64_t>(length.data()), limits.json_bytes) : 0;
  return {.bytes = up_to(std::max(sizeof(uint64_t) + header, 64 * kKiB)), .size = size};
}

// Decided by content; the name decides only if the beginning is damaged.
bool is_safetensors_file(Found& found) {
  if (found.is_folder()) return false;
  if (begins_like_safetensors(found.head(), found.bytes())) return true;
  return found.name().ends_with(kSafetensorsEnding) && !is_torch_file(found.head()) && foreign_file(found.head()).what.empty();
}

}  // namespace

const Input hf_input{.is_at =
                         [](Found& found) {
                           const auto is = [](const DirEntry& e) {
                             return e.kind != FileKind::kDirectory && describes_safetensors(e.name);
                           };
                           return found.is_folder() ? found.has_entry(is) : found.is_file() && found.name().ends_with(kIndexEnding);
                         },
                     .open = open_safetensors_folder,
                     .describes = describes_safetensors,
                     .read_description = read_header,
                     .is_file = [](std::string_view name) { return name.ends_with(kIndexEnding); }};

const Input safetensors_input{.is_at = is_safetensors_file, .open = open_safetensors_file, .is_file = [](std::string_view name) {
                                return name.ends_with(kSafetensorsEnding);
                              }};

}  // namespace dcp
