#include "files/remove_checkpoint.h"

#include <algorithm>
#include <optional>

#include "base/file_names.h"
#include "base/problem.h"
#include "catalog/data_files.h"
#include "catalog/kind.h"
#include "files/claim.h"

namespace dcp {
namespace {

// The files that make a folder a checkpoint are removed first: without them the data is no checkpoint. If each file is a checkpoint by
// itself, the index is removed last, since it shows that files are missing.
int phase_of(std::string_view name, bool is_models) {
  const FileRole role = role_of(name);
  if (role == (is_models ? FileRole::kModel : FileRole::kVital)) return 0;
  if (role != (is_models ? FileRole::kIndex : FileRole::kData)) return 1;
  return !is_models && rank_of_file(name) == 0u ? 3 : 2;
}

bool is_part(const std::vector<std::string>& names) {
  return std::ranges::any_of(names, [](const std::string& name) {
    const FileRole role = role_of(name);
    return role != FileRole::kOther && role != FileRole::kIndex;
  });
}

// If any order will do, files that could be mistaken for a checkpoint are removed first.
RemovalOrder order_of(std::vector<std::string> names) {
  RemovalOrder order = removal_order(names);
  if (order.names.size() == names.size()) return order;
  const size_t all = names.size();
  return {.names = std::move(names), .metadata = all, .rank_0 = all};
}

struct Folder {
  OpenFile handle;
  Handle around = 0;
  std::string name;
};

// The folders of a step with the names of their files; each folder comes after its parent.
class StepTree {
 public:
  StepTree(Io& io, Handle run, const CheckpointFolder& step) : io_(io), run_(run), step_(step) {}

  // Returns false if the step has changed.
  bool read() {
    const std::optional<Handle> handle = io_.open_folder(run_, step_.name);
    if (!handle) return false;
    folders_.push_back({.handle = OpenFile(io_, *handle), .around = run_, .name = step_.name});
    if (io_.facts(*handle).id != step_.id) return false;
    if (!add(*handle, step_.levels) || files_ != step_.files || bytes_ != step_.bytes) return false;
    return files_ == 0 || modified_ns_ == step_.modified_ns;
  }

  // The folder that loses its metadata first; nullopt: there is none.
  std::optional<size_t> first() const { return is_unfinished_name(step_.name) ? 0 : first_to_break(names_); }

  // Locks the file that is removed first. Returns false if another process holds the lock.
  bool lock(size_t first, OpenFile& lock) const {
    if (names_[first].empty()) return true;
    const std::optional<Handle> file = io_.open_write(folders_[first].handle.get(), order_of(names_[first]).names.front());
    if (file) lock = OpenFile(io_, *file);
    return file && io_.try_lock(*file);
  }

  void remove(size_t first) {
    std::vector<size_t> parts, others;
    for (size_t f = 0; f < folders_.size(); ++f)
      if (f != first) (is_part(names_[f]) ? parts : others).push_back(f);
    parts.push_back(first);  // its data is removed last
    std::vector<RemovalOrder> orders;
    for (const std::vector<std::string>& names : names_) orders.push_back(order_of(names));
    const auto remove_files = [&](size_t f, size_t begin, size_t end) {
      for (size_t i = begin; i < end; ++i) io_.remove_file(folders_[f].handle.get(), orders[f].names[i]);
    };
    for (auto part = parts.rbegin(); part != parts.rend(); ++part) {
      remove_files(*part, 0, orders[*part].metadata);
      io_.sync_folder(folders_[*part].handle.get());
    }
    for (const size_t f : others) remove_files(f, 0, orders[f].names.size());
    for (const size_t f : parts) {
      remove_files(f, orders[f].metadata, orders[f].rank_0);
      if (orders[f].rank_0 > orders[f].metadata) io_.sync_folder(folders_[f].handle.get());
      remove_files(f, orders[f].rank_0, orders[f].names.size());
    }
    for (size_t f = folders_.size(); f-- > 0;)
      if (is_named(io_, folders_[f].around, folders_[f].name, io_.facts(folders_[f].handle.get())))
        io_.remove_folder(folders_[f].around, folders_[f].name);
  }

 private:
  bool add(Handle folder, unsigned levels) {
    const size_t at = names_.size();
    names_.emplace_back();
    const std::vector<DirEntry> entries = io_.list(folder);
    for (const DirEntry& e : entries) {
      const std::optional<FileFacts> facts = io_.facts(folder, e.name);
      if (!facts) return false;
      if (facts->kind == FileKind::kDirectory && !facts->link && levels > 0) {
        if (!add_folder(folder, e.name, levels - 1)) return false;
        continue;
      }
      if (facts->link || facts->kind != FileKind::kRegular || !is_checkpoint_file(e.name, entries)) return false;
      if (e.name.ends_with(kLock) && !is_free(folder, e.name)) return false;
      modified_ns_ = files_ == 0 ? facts->modified_ns : std::max(modified_ns_, facts->modified_ns);
      bytes_ += facts->bytes;
      ++files_;
      names_[at].push_back(e.name);
    }
    return true;
  }

  bool add_folder(Handle around, const std::string& name, unsigned levels) {
    const std::optional<Handle> handle = io_.open_folder(around, name);
    if (!handle) return false;
    folders_.push_back({.handle = OpenFile(io_, *handle), .around = around, .name = name});
    return add(*handle, levels);
  }

  // Whether no process that fills a folder holds the lock.
  bool is_free(Handle folder, const std::string& name) const {
    const std::optional<Handle> lock = io_.open_write(folder, name);
    if (!lock) return true;
    const OpenFile file(io_, *lock);
    return io_.try_lock(file.get());
  }

  Io& io_;
  const Handle run_;
  const CheckpointFolder& step_;
  std::vector<Folder> folders_;
  FolderNames names_;  // of each folder
  uint64_t files_ = 0, bytes_ = 0;
  int64_t modified_ns_ = 0;
};

}  // namespace

bool is_checkpoint_file(std::string_view name, const std::vector<DirEntry>& entries) {
  constexpr std::string_view kEndings[] = {".pt", ".pth", ".bin", ".ckpt", ".pkl", ".json", kOld};
  if (name == "README.md") return std::ranges::find(entries, "adapter_config.json", &DirEntry::name) != entries.end();
  return may_be_in_output(name) || role_of(name) != FileRole::kOther || is_completion_mark(name) || name.starts_with(".metadata.orig") ||
         std::ranges::any_of(kEndings, [&](std::string_view ending) { return name.ends_with(ending); });
}

RemovalOrder removal_order(std::vector<std::string> names) {
  const auto count = [&](FileRole role) { return std::ranges::count(names, role, role_of); };
  const bool is_models = count(FileRole::kVital) + count(FileRole::kData) == 0;
  if (is_models && count(FileRole::kModel) > 1 && count(FileRole::kIndex) == 0) return {};
  const auto phase = [&](const std::string& n) { return phase_of(n, is_models); };
  std::ranges::sort(names, {}, [&](const std::string& n) { return std::pair(phase(n), std::string_view(n)); });
  const auto before = [&](int end) {
    return static_cast<size_t>(std::ranges::count_if(names, [&](const std::string& n) { return phase(n) < end; }));
  };
  const size_t metadata = before(1), rank_0 = before(3);
  return {.names = std::move(names), .metadata = metadata, .rank_0 = rank_0};
}

std::optional<size_t> first_to_break(const FolderNames& folders) {
  std::vector<size_t> parts;
  for (size_t f = 0; f < folders.size(); ++f)
    if (is_part(folders[f])) parts.push_back(f);
  const auto has = [&](size_t f, FileRole role) { return std::ranges::find(folders[f], role, role_of) != folders[f].end(); };
  if (parts.size() <= 1) {
    const size_t only = parts.empty() ? 0 : parts.front();
    return removal_order(folders[only]).names.size() == folders[only].size() ? std::optional(only) : std::nullopt;
  }
  if (has(0, FileRole::kVital)) return 0;  // its data lies in folders of its own
  if (std::ranges::none_of(parts, [&](size_t f) { return has(f, FileRole::kVital) || has(f, FileRole::kModel); }))
    return 0;  // nor is it one now
  const auto first = std::ranges::find_if(parts, [&](size_t f) { return has(f, FileRole::kVital) && has(f, FileRole::kData); });
  return first == parts.end() ? std::nullopt : std::optional(*first);
}

bool remove_checkpoint(Io& io, Handle run, const CheckpointFolder& folder) {
  std::optional<ClaimedName> claim;
  try {
    claim.emplace(io, run, beside(folder.name, kLock));
    if (!claim->is_ours()) return false;
  } catch (const Error& e) {  // a full file system, which is why runs are pruned, may have no room for a lock
    if (e.problem().id != ProblemId::io_no_space) throw;
  }
  StepTree step(io, run, folder);
  if (!step.read()) return false;
  const std::optional<size_t> first = step.first();
  OpenFile lock;
  if (!first || (!claim && !step.lock(*first, lock))) return false;
  step.remove(*first);
  return true;
}

}  // namespace dcp
