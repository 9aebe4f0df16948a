// safetensors as a checkpoint: a single file; a Hugging Face folder with an index; the shards of torch's HuggingFaceStorageWriter.
#include <algorithm>
#include <set>
#include <unordered_set>

#include "base/text.h"
#include "catalog/build.h"
#include "catalog/cover.h"
#include "inputs/hf_index.h"
#include "inputs/input.h"
#include "inputs/refuse.h"
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
  FindingList findings(opened.findings);
  for (const Problem& p : merger.faults()) findings.add(p);
  findings.end();
  return opened;
}

// The header of each file, or nullopt if the file does not exist.
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

// --- with an index

class IndexedFolder {
 public:
  IndexedFolder(Store& store, const std::string& path, const std::string& index, const OpenOptions& options)
      : store_(store), path_(path), options_(options), left_(options.limits), index_place_{.path = path + "/" + index} {
    index_ = open_index(store, path, index, options, left_);
  }

  OpenedCatalog open(const std::vector<DirEntry>& entries, const std::set<std::string>& without) {
    read_files(without);
    compare(entries);
    OpenedCatalog opened = catalog_of(files_, path_, path_, CheckpointKind::kHf);
    note_lacking(index_, opened.catalog);
    if (!incomplete_) compare_total(index_, opened.catalog, index_place_, findings_);
    for (const DirEntry& e : entries)
      if (e.name.ends_with(kSafetensorsEnding) && e.kind == FileKind::kRegular && !named_.contains(e.name))
        findings_.push_back(make_finding(ProblemId::hf_file_ignored, Severity::kWarning, {.path = path_ + "/" + e.name}));
    opened.findings.insert(opened.findings.begin(), findings_.begin(), findings_.end());
    return opened;
  }

 private:
  void read_files(const std::set<std::string>& without) {
    for (const auto& [tensor, name] : index_.weight_map) named_.insert(name);
    std::vector<std::string> names(named_.begin(), named_.end());
    std::erase_if(names, [&](const std::string& name) { return without.contains(name); });
    for (auto& file : read_headers(store_, path_, names, options_.links, left_))
      if (file) files_.push_back(std::move(*file));
  }

  void compare(const std::vector<DirEntry>& entries) {
    std::vector<HeldTensors> held;
    for (const SafetensorsFile& f : files_) {
      const std::vector<SafetensorsEntry>& all = f.header.entries;
      const auto shape_of = [&all](std::string_view tensor) {
        return shape_text(std::ranges::find(all, tensor, &SafetensorsEntry::name)->shape);
      };
      held.push_back({.file = f.name, .tensors = {}, .are_shards = f.sharding.has_value(), .shape_of = shape_of});
      for (const SafetensorsEntry& e : all) held.back().tensors.push_back(e.name);
    }
    const auto hint = [&](const LostTensors& lost) { return hint_for(lost, entries); };
    const IndexVerdict verdict = compare_index(index_, held, index_place_, findings_, hint);
    drop(verdict.dropped);
    incomplete_ = verdict.incomplete;
  }

  // Tensors of missing files may be in others, which the index does not name.
  std::string hint_for(const LostTensors& lost, const std::vector<DirEntry>& entries) {
    std::vector<std::string> names;
    for (const DirEntry& e : entries)
      if (e.name.ends_with(kSafetensorsEnding) && e.kind == FileKind::kRegular && !named_.contains(e.name)) names.push_back(e.name);
    std::unordered_set<std::string> here;
    try {
      for (const auto& file : read_headers(store_, path_, names, options_.links, left_))
        for (const SafetensorsEntry& e : file ? file->header.entries : std::vector<SafetensorsEntry>()) here.insert(e.name);
    } catch (const Error&) {  // a file that no index names may be anything
      here.clear();
    }
    return hint_for_lost(
        lost, here,
        names.size() == 1 ? "give " + path_ + "/" + names.front() : "without " + index_place_.path + " they are read as they are");
  }

  void drop(const std::set<std::pair<uint32_t, std::string>>& dropped) {
    for (uint32_t f = 0; f < files_.size() && !dropped.empty(); ++f)
      std::erase_if(files_[f].header.entries, [&](const SafetensorsEntry& e) { return dropped.contains({f, e.name}); });
  }

  Store& store_;
  const std::string& path_;
  const OpenOptions& options_;
  Limits left_;  // of memory
  const Place index_place_;
  HfIndex index_;
  std::set<std::string_view, std::less<>> named_;  // files
  std::vector<SafetensorsFile> files_;
  std::vector<Problem> findings_;
  bool incomplete_ = false;
};

// --- without one

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

bool is_rank_shard(const DirEntry& e) { return e.name.starts_with("shard-") && e.name.ends_with(kSafetensorsEnding); }

// torch 2.15 writes 0.0 for every tensor without dims when it consolidates; the original shards are kept in sharded/.
void doubt_scalars(Store& store, OpenedCatalog& opened) {
  const Catalog& catalog = opened.catalog;
  const std::string sharded = catalog.folder + "/sharded";
  const auto facts = store.facts(sharded);
  if (!facts || facts->kind != FileKind::kDirectory) return;
  const auto entries = store.list(sharded);
  if (std::ranges::none_of(entries, is_rank_shard)) return;
  Tally scalars;
  for (const Tensor& t : catalog.tensors)
    if (t.rank == 0 && t.dtype_known) scalars.add(catalog.key(t));
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

// A folder of safetensors files, given as the folder or its index. With an index, the checkpoint is the files that it names, and
// contradictions between index and files become findings; a tensor that no file holds and a missing file are damage. Without one, it is all
// files: plain ones are one checkpoint (a download without its index) unless a tensor name occurs twice, since it would be unclear which
// one is meant.
OpenedCatalog open_safetensors_folder(Found& found) {
  Store& store = found.store();
  const OpenOptions& options = found.options();
  const std::string path = found.is_folder() ? found.path() : found.folder();
  const std::string index = found.is_folder() ? index_of(path, found.entries(), kSafetensorsEnding, kUsualIndex) : found.name();
  std::vector<std::string> names;
  for (const DirEntry& e : found.entries())
    if (e.name.ends_with(kSafetensorsEnding) && e.kind != FileKind::kDirectory) names.push_back(e.name);
  if (names.size() > options.limits.shard_files)
    fail(ProblemId::over_limit, {.path = path}, std::to_string(names.size()) + " files",
         "at most " + std::to_string(options.limits.shard_files));
  OpenedCatalog opened = open_rest(path, names.size(), [&](const std::set<std::string>& without) {
    if (!index.empty()) return IndexedFolder(store, path, index, options).open(found.entries(), without);
    std::vector<std::string> rest = names;
    std::erase_if(rest, [&](const std::string& name) { return without.contains(name); });
    return open_all(store, path, rest, options);
  });
  doubt_scalars(store, opened);
  // torch's writer of such shards writes no configuration; transformers' model does.
  if (found.has_entry(is_rank_shard) && found.has_entry([](const DirEntry& e) { return e.name == "config.json"; }))
    opened.catalog.provenance.written_by = "transformers";
  return opened;
}

bool is_safetensors_index(std::string_view name) { return is_index_name(name, kSafetensorsEnding); }
bool describes_safetensors(std::string_view name) { return name.ends_with(kSafetensorsEnding) || is_safetensors_index(name); }

// The file up to the end of its header, and at least enough to recognize its kind.
Description read_header(Store& store, const std::string& path, const Limits& limits) {
  if (is_safetensors_index(path)) return whole_file(store, path, limits.json_bytes);
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

// The content decides; the name does only if the beginning is damaged.
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
                           return found.is_folder() ? found.has_entry(is) : found.is_file() && is_safetensors_index(found.name());
                         },
                     .open = open_safetensors_folder,
                     .describes = describes_safetensors,
                     .read_description = read_header,
                     .is_file = is_safetensors_index};

const Input safetensors_input{.is_at = is_safetensors_file, .open = open_safetensors_file, .is_file = [](std::string_view name) {
                                return name.ends_with(kSafetensorsEnding);
                              }};

}  // namespace dcp
