// An in-memory Io: files in a map, every call in a log, and a script of what goes wrong.
//
// Differs from the real one where that does not matter to a test: no symbolic links, no permissions, paths are compared as they are
// written.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/io.h"

namespace dcp::test {

// Kinds of calls, for counting and failing. Both open_read and open_beneath are kOpen.
enum class Op : uint8_t {
  kOpen,
  kRead,
  kList,
  kCreate,
  kWrite,
  kAllocate,
  kSync,
  kSyncFolder,
  kMakeFolder,
  kRename,
  kLink,
  kRemoveFile,
  kRemoveFolder,
  kLock,
  kCount
};

// Files and folders by path, as tests see them from outside: not logged, never failing by script.
class FakeDisk {
 public:
  void put(const std::string& path, std::string_view text) {
    add_folders(parent(path));
    const Bytes bytes = as_bytes(text);
    files_[path] = std::make_shared<Node>(Node{.bytes = {bytes.begin(), bytes.end()}});
  }
  void put_folder(const std::string& path) { add_folders(path); }
  void take(const std::string& path) {  // with all that is in it
    move_beneath(files_, path, kNowhere);
    move_beneath(folders_, path, kNowhere);
    for (auto* map : {&files_, &folders_}) std::erase_if(*map, [](const auto& entry) { return entry.first.starts_with(kNowhere); });
  }
  void move(const std::string& from, const std::string& to) {
    move_beneath(files_, from, to);
    move_beneath(folders_, from, to);
  }
  bool exists(const std::string& path) const { return files_.contains(path) || folders_.contains(path); }
  std::string text_of(const std::string& path) const { return std::string(as_text(files_.at(path)->bytes)); }
  std::vector<std::string> paths() const {  // of files, sorted
    std::vector<std::string> paths;
    for (const auto& entry : files_) paths.push_back(entry.first);
    return paths;
  }

 protected:
  struct Node {
    std::vector<std::byte> bytes;
    bool locked = false;
    uint32_t owner = 1000;
  };

  std::vector<DirEntry> entries_of(const std::string& folder) const {
    if (!folders_.contains(folder)) fail(ProblemId::io_list, Place{.path = folder}, "No such file or directory");
    std::vector<DirEntry> entries;
    for (const auto& entry : files_)
      if (parent(entry.first) == folder) entries.push_back({base_name(entry.first), FileKind::kRegular});
    for (const auto& [path, node] : folders_)
      if (!base_name(path).empty() && parent(path) == folder) entries.push_back({base_name(path), FileKind::kDirectory});
    std::sort(entries.begin(), entries.end(), [](const DirEntry& a, const DirEntry& b) { return a.name < b.name; });
    return entries;
  }
  Node& node(const std::string& path) { return folders_.contains(path) ? *folders_[path] : *files_.at(path); }
  static std::string parent(const std::string& path) {
    const size_t slash = path.rfind('/');
    if (slash == std::string::npos) return "";
    return slash == 0 ? "/" : path.substr(0, slash);
  }
  static std::string base_name(const std::string& path) { return path.substr(path.rfind('/') + 1); }
  void add_folders(const std::string& path) {
    if (folders_.contains(path)) return;
    add_folders(parent(path));
    folders_[path] = std::make_shared<Node>();
  }
  void need_parent(const std::string& path, ProblemId id) const {
    if (!folders_.contains(parent(path))) fail(id, Place{.path = path}, "No such file or directory");
  }
  bool holds_something(const std::string& folder) const {
    const std::string prefix = folder + "/";
    const auto file = files_.lower_bound(prefix);
    const auto inner = folders_.lower_bound(prefix);
    return (file != files_.end() && file->first.starts_with(prefix)) || (inner != folders_.end() && inner->first.starts_with(prefix));
  }
  template <class Map>
  static void move_beneath(Map& map, const std::string& from, const std::string& to) {
    Map moved;
    for (auto& [path, value] : map) {
      const bool inside = path == from || path.starts_with(from + "/");
      moved.insert_or_assign(inside ? to + path.substr(from.size()) : path, value);
    }
    // A file that was at `to` is replaced, whichever of the two comes first in the order of names.
    if (map.contains(from)) moved.insert_or_assign(to, map.at(from));
    map = std::move(moved);
  }

  uint64_t used_bytes() const {
    uint64_t used = 0;
    for (const auto& entry : files_) used += entry.second->bytes.size();
    return used;
  }

  std::map<std::string, std::shared_ptr<Node>> files_;
  std::map<std::string, std::shared_ptr<Node>> folders_{{"", std::make_shared<Node>()}, {"/", std::make_shared<Node>()}};

 private:
  static constexpr const char* kNowhere = "\x01";
};

// What goes wrong, and what was called.
class FakeScript {
 public:
  static constexpr uint64_t kUnlimited = std::numeric_limits<uint64_t>::max();

  // --- the script, set before the calls
  size_t max_read = std::numeric_limits<size_t>::max();   // bytes one read returns at most (short reads)
  size_t max_write = std::numeric_limits<size_t>::max();  // bytes one write takes at most (short writes)
  uint64_t capacity_bytes = kUnlimited;                   // of all files together; beyond it: io_no_space
  WriteCapabilities capabilities{};                       // without keeps_ids every look at a name finds another id
  bool can_link = true;                                   // what link() answers
  std::function<void(Op op, uint64_t k)> before;          // seen before each k-th call of a kind, counted from 0; may throw
  // The k-th call of this kind (from 0) fails, before it does anything.
  void fail_at(Op op, uint64_t k, ProblemId id) { faults_[{op, k}] = id; }
  uint64_t calls(Op op) const { return calls_[index(op)]; }
  std::set<std::string> past_cache;  // paths written to in that way
  std::vector<std::string> log;      // such as "write out @0 +5", in the order of the calls

 protected:
  static size_t index(Op op) { return static_cast<size_t>(op); }

  // Every call begins here: log, hook, scripted fault, and the lock for the rest of the call. The hook runs unlocked, so that it may
  // look at the world.
  std::unique_lock<std::mutex> enter(Op op, const std::string& path, const std::string& entry) {
    std::unique_lock lock(mutex_);
    const uint64_t k = calls_[index(op)]++;
    if (!entry.empty()) log.push_back(entry);
    if (before) {
      lock.unlock();
      before(op, k);
      lock.lock();
    }
    const auto fault = faults_.find({op, k});
    if (fault != faults_.end()) fail(fault->second, Place{.path = path}, "scripted fault");
    return lock;
  }

  mutable std::mutex mutex_;

 private:
  std::map<std::pair<Op, uint64_t>, ProblemId> faults_;
  std::array<uint64_t, static_cast<size_t>(Op::kCount)> calls_{};
};

class FakeIo final : public FakeDisk, public FakeScript, public Io {
 public:
  // The file is locked by another process, as it seems.
  void lock_elsewhere(const std::string& path) { node(path).locked = true; }
  void give_to(const std::string& path, uint32_t owner) { node(path).owner = owner; }

  // --- what was called
  size_t open_handles() const {
    return static_cast<size_t>(std::count_if(open_.begin(), open_.end(), [](const Open& o) { return o.node != nullptr; }));
  }

  // --- Io
  Handle open_read(const std::string& path) override {
    const auto lock = enter(Op::kOpen, path, "open " + path);
    if (folders_.contains(path)) fail(ProblemId::not_regular, Place{.path = path}, "a folder");
    if (!files_.contains(path)) fail(ProblemId::io_open, Place{.path = path}, "No such file or directory");
    return keep(path, files_[path]);
  }
  std::optional<Handle> open_beneath(const std::string& root, std::string_view name, FollowLinks) override {
    const std::string path = root + "/" + std::string(name);
    const auto lock = enter(Op::kOpen, path, "open " + path);
    if (name.empty() || name.starts_with('/') || name.find("..") != std::string_view::npos)
      fail(ProblemId::path_escapes, Place{.path = root}, std::string("'").append(name) + "'");
    if (folders_.contains(path)) fail(ProblemId::not_regular, Place{.path = path}, "a folder");
    if (!files_.contains(path)) return std::nullopt;
    return keep(path, files_[path]);
  }
  size_t read(Handle file, uint64_t offset, MutableBytes buffer) override {
    const auto lock = enter(Op::kRead, name_of(file), {});  // not logged: workers read in any order
    const std::vector<std::byte>& bytes = opened(file).node->bytes;
    if (offset >= bytes.size()) return 0;
    const size_t n = std::min({buffer.size(), max_read, bytes.size() - static_cast<size_t>(offset)});
    std::copy_n(bytes.begin() + static_cast<ptrdiff_t>(offset), n, buffer.begin());
    return n;
  }
  FileFacts facts(Handle file) override {
    const std::lock_guard lock(mutex_);
    return facts_of(*opened(file).node, opened(file).folder ? FileKind::kDirectory : FileKind::kRegular);
  }
  std::optional<FileFacts> facts(const std::string& path) override {
    const std::lock_guard lock(mutex_);
    return named(path);
  }
  std::vector<DirEntry> list(const std::string& folder) override {
    const auto lock = enter(Op::kList, folder, "list " + folder);
    return entries_of(folder);
  }

  // A handle of a folder stays with it: calls are logged with the path that the folder has when they are made.
  Handle open_folder(const std::string& path) override {
    const auto lock = enter(Op::kOpen, path, {});
    if (!folders_.contains(path)) fail(ProblemId::io_open, Place{.path = path}, "No such file or directory");
    return keep(path, folders_[path]);
  }
  std::optional<Handle> open_folder(Handle folder, const std::string& name) override {
    std::string path = path_in(folder, name);
    const auto lock = enter(Op::kOpen, path, {});
    path = path_now(folder, name);
    if (!folders_.contains(path)) return std::nullopt;
    return keep(path, folders_[path]);
  }
  std::optional<FileFacts> facts(Handle folder, const std::string& name) override {
    const std::string path = path_in(folder, name);
    const std::lock_guard lock(mutex_);
    return named(path);
  }
  std::vector<DirEntry> list(Handle folder) override {
    std::string path = path_in(folder, "");
    const auto lock = enter(Op::kList, path, "list " + path);
    path = path_now(folder, "");
    return entries_of(path);
  }
  WriteCapabilities write_capabilities(Handle) override { return capabilities; }
  void check_writable(const std::string& folder) override {
    if (!exists(folder)) fail(ProblemId::io_create, Place{.path = folder}, "No such file or directory");
  }

  Handle create(Handle folder, const std::string& name) override {
    std::string path = path_in(folder, name);
    const auto lock = enter(Op::kCreate, path, "create " + path);
    path = path_now(folder, name);
    if (exists(path)) fail(ProblemId::output_exists, Place{.path = path});
    need_parent(path, ProblemId::io_create);
    return keep(path, files_[path] = std::make_shared<Node>());
  }
  std::optional<Handle> open_write(Handle folder, const std::string& name) override {
    std::string path = path_in(folder, name);
    const auto lock = enter(Op::kCreate, path, {});
    path = path_now(folder, name);
    if (folders_.contains(path)) fail(ProblemId::io_create, Place{.path = path}, "Is a directory");
    if (!files_.contains(path)) return std::nullopt;
    return keep(path, files_[path]);
  }
  size_t write(Handle file, uint64_t offset, Bytes bytes) override {
    const std::string path = name_of(file);
    const size_t n = std::min(bytes.size(), max_write);
    const auto lock = enter(Op::kWrite, path, "write " + path + " @" + std::to_string(offset) + " +" + std::to_string(n));
    std::vector<std::byte>& content = opened(file).node->bytes;
    need_space(path, content.size(), std::max<uint64_t>(content.size(), offset + n));
    if (content.size() < offset + n) content.resize(offset + n);
    std::copy_n(bytes.begin(), n, content.begin() + static_cast<ptrdiff_t>(offset));
    return n;
  }
  size_t write_past_cache(Handle file, uint64_t offset, Bytes bytes) override {
    {
      const std::lock_guard lock(mutex_);
      past_cache.insert(opened(file).path);
    }
    return write(file, offset, bytes);
  }
  void allocate(Handle file, uint64_t bytes) override {
    const std::string path = name_of(file);
    const auto lock = enter(Op::kAllocate, path, "allocate " + path + " " + std::to_string(bytes));
    std::vector<std::byte>& content = opened(file).node->bytes;
    need_space(path, content.size(), bytes);
    content.resize(bytes);
  }
  void sync(Handle file) override {
    const std::string path = name_of(file);
    enter(Op::kSync, path, "sync " + path);
  }
  void sync_folder(Handle folder) override {
    const std::string path = path_in(folder, "");
    enter(Op::kSyncFolder, path, "sync_folder " + path);
  }
  void make_folder(Handle folder, const std::string& name) override {
    std::string path = path_in(folder, name);
    const auto lock = enter(Op::kMakeFolder, path, "make_folder " + path);
    path = path_now(folder, name);
    if (exists(path)) fail(ProblemId::output_exists, Place{.path = path});
    need_parent(path, ProblemId::io_create);
    add_folders(path);
  }
  // A folder moves with all that is in it; onto another folder only if that one is empty, as rename(2) does.
  void rename(Handle folder, const std::string& from_name, const std::string& to_name, Replace replace) override {
    std::string from = path_in(folder, from_name), to = path_in(folder, to_name);
    const auto lock = enter(Op::kRename, from, "rename " + from + " -> " + to);
    from = path_now(folder, from_name), to = path_now(folder, to_name);
    if (!exists(from)) fail(ProblemId::io_rename, Place{.path = from}, "No such file or directory");
    if (replace == Replace::kNo && exists(to)) fail(ProblemId::output_exists, Place{.path = to});
    need_parent(to, ProblemId::io_rename);
    if (holds_something(to)) fail(ProblemId::io_rename, Place{.path = from}, "Directory not empty");
    move(from, to);
  }
  bool link(Handle file, Handle folder, const std::string& name) override {
    const std::string from = name_of(file), to = path_in(folder, name);
    const auto lock = enter(Op::kLink, to, "link " + from + " -> " + to);
    const std::string path = path_now(folder, name);
    if (!can_link) return false;
    if (exists(path)) fail(ProblemId::output_exists, Place{.path = path});
    files_[path] = opened(file).node;
    return true;
  }
  void remove_file(Handle folder, const std::string& name) override {
    std::string path = path_in(folder, name);
    const auto lock = enter(Op::kRemoveFile, path, "remove_file " + path);
    path = path_now(folder, name);
    files_.erase(path);
  }
  void remove_folder(Handle folder, const std::string& name) override {
    std::string path = path_in(folder, name);
    const auto lock = enter(Op::kRemoveFolder, path, "remove_folder " + path);
    path = path_now(folder, name);
    if (holds_something(path)) fail(ProblemId::io_remove, Place{.path = path}, "Directory not empty");
    folders_.erase(path);
  }
  bool try_lock(Handle file) override {
    const std::string path = name_of(file);
    const auto lock = enter(Op::kLock, path, "lock " + path);
    Open& open = opened(file);
    if (open.node->locked && !open.has_lock) return false;
    open.node->locked = open.has_lock = true;
    return true;
  }
  std::optional<uint64_t> free_bytes(const std::string&) override {
    const std::lock_guard lock(mutex_);
    if (capacity_bytes == kUnlimited) return std::nullopt;
    return capacity_bytes - std::min(capacity_bytes, used_bytes());
  }

  void close(Handle file) override {
    const std::lock_guard lock(mutex_);
    if (opened(file).has_lock) opened(file).node->locked = false;
    opened(file) = Open{};
  }
  std::string name_of(Handle file) override {
    const std::lock_guard lock(mutex_);
    return opened(file).path;
  }
  uint64_t now_ns() override {
    const std::lock_guard lock(mutex_);
    return now_ns_ += 1'000'000;  // a millisecond a look
  }

 private:
  struct Open {
    std::string path;
    std::shared_ptr<Node> node;  // outlives the name, as an unlinked file does
    bool folder = false;
    bool has_lock = false;
  };

  static FileFacts facts_of(const Node& node, FileKind kind = FileKind::kRegular) {
    return {.bytes = node.bytes.size(), .kind = kind, .id = {1, reinterpret_cast<uintptr_t>(&node)}, .owner = node.owner};
  }
  std::optional<FileFacts> named(const std::string& path) {
    const bool folder = folders_.contains(path);
    if (!folder && !files_.contains(path)) return std::nullopt;
    FileFacts facts = folder ? facts_of(*folders_[path], FileKind::kDirectory) : facts_of(*files_[path]);
    if (!capabilities.keeps_ids && !folder && base_name(path).find(".dcpctl-lock") == std::string::npos) facts.id.inode = ++numbers_;
    return facts;
  }
  Handle keep(const std::string& path, const std::shared_ptr<Node>& node) {
    open_.push_back({.path = path, .node = node, .folder = folders_.contains(path)});
    return static_cast<Handle>(open_.size() - 1);  // never given out twice: use after close is found
  }
  Open& opened(Handle file) {
    Open& open = open_.at(static_cast<size_t>(file));
    if (!open.node) fail(ProblemId::internal, Place{}, "a closed handle was used");
    return open;
  }
  // Of a name in an open folder: where that folder is now.
  std::string path_in(Handle folder, const std::string& name) {
    const std::lock_guard lock(mutex_);
    return path_now(folder, name);
  }
  std::string path_now(Handle folder, const std::string& name) {
    const auto& node = opened(folder).node;
    const auto at = std::ranges::find_if(folders_, [&](const auto& entry) { return entry.second == node; });
    if (at == folders_.end()) fail(ProblemId::io_open, Place{.path = opened(folder).path}, "No such file or directory");
    if (name.empty() || at->first.empty()) return at->first + name;
    return at->first + (at->first == "/" ? "" : "/") + name;
  }

  void need_space(const std::string& path, uint64_t size_before, uint64_t size_after) const {
    if (size_after <= size_before || size_after - size_before <= capacity_bytes - std::min(capacity_bytes, used_bytes())) return;
    fail(ProblemId::io_no_space, Place{.path = path}, "No space left on device");
  }

  uint64_t numbers_ = 0;
  std::vector<Open> open_;
  uint64_t now_ns_ = 0;
};

}  // namespace dcp::test
