// The real Io with a hook before every call, a limit on what one call moves, and a record of what was written.
#pragma once

#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <limits>
#include <mutex>
#include <string>
#include <vector>

#include "base/io.h"

namespace dcp::fault {

enum class Call : uint8_t {
  kOpen,
  kRead,
  kFacts,
  kList,
  kCreate,
  kWrite,
  kAllocate,
  kSync,
  kSyncFolder,
  kMakeFolder,
  kRename,
  kLink,
  kRemove,
  kLock,
  kFree
};

// What happened to the disk, in order.
struct Change {
  Call call{};
  std::string path, to;  // `to`: of a rename; of a link the new name
  uint64_t offset = 0;   // of a write; the new size of kAllocate
  std::string bytes;     // of a write, and of what is linked
  bool folder = false;   // of kRemove
};

class FaultIo final : public Io {
 public:
  explicit FaultIo(Io& io) : io_(io) {}

  // --- the script
  std::function<void(uint64_t index, Call call, const std::string& path)> before;  // of every call, from any thread; may throw
  size_t most = std::numeric_limits<size_t>::max();                                // bytes that one read or write moves
  bool reserves = true;                                                            // false: a file system without fallocate
  bool hard_links = true;                                                          // false: one without hard links
  bool knows_space = true;                                                         // false: one that does not say what is free
  bool recording = false;
  std::vector<Change> changes;
  uint64_t calls() const { return calls_; }

  // --- Io
  Handle open_read(const std::string& path) override {
    enter(Call::kOpen, path);
    return io_.open_read(path);
  }
  std::optional<Handle> open_beneath(const std::string& root, std::string_view name, FollowLinks links) override {
    enter(Call::kOpen, root + "/" + std::string(name));
    return io_.open_beneath(root, name, links);
  }
  size_t read(Handle file, uint64_t offset, MutableBytes buffer) override {
    enter(Call::kRead, io_.name_of(file));
    return io_.read(file, offset, buffer.first(std::min(buffer.size(), most)));
  }
  FileFacts facts(Handle file) override {
    enter(Call::kFacts, io_.name_of(file));
    return io_.facts(file);
  }
  std::optional<FileFacts> facts(const std::string& path) override {
    enter(Call::kFacts, path);
    return io_.facts(path);
  }
  std::vector<DirEntry> list(const std::string& folder) override {
    enter(Call::kList, folder);
    return io_.list(folder);
  }
  Handle open_folder(const std::string& path) override {
    enter(Call::kOpen, path);
    return io_.open_folder(path);
  }
  std::optional<Handle> open_folder(Handle folder, const std::string& name) override {
    enter(Call::kOpen, {folder, name});
    return io_.open_folder(folder, name);
  }
  std::optional<FileFacts> facts(Handle folder, const std::string& name) override {
    enter(Call::kFacts, {folder, name});
    return io_.facts(folder, name);
  }
  std::vector<DirEntry> list(Handle folder) override {
    enter(Call::kList, {folder, ""});
    return io_.list(folder);
  }
  bool keeps_ids(Handle folder) override { return io_.keeps_ids(folder); }
  Handle create(Handle folder, const std::string& name) override {
    enter(Call::kCreate, {folder, name});
    const Handle file = io_.create(folder, name);
    record([&] { return Change{.call = Call::kCreate, .path = Where(folder, name).path()}; });
    return file;
  }
  std::optional<Handle> open_write(Handle folder, const std::string& name) override {
    enter(Call::kCreate, {folder, name});
    return io_.open_write(folder, name);
  }
  size_t write(Handle file, uint64_t offset, Bytes bytes) override {
    enter(Call::kWrite, io_.name_of(file));
    const size_t n = io_.write(file, offset, bytes.first(std::min(bytes.size(), most)));
    record([&] {
      return Change{.call = Call::kWrite, .path = io_.name_of(file), .offset = offset, .bytes = std::string(as_text(bytes.first(n)))};
    });
    return n;
  }
  bool allocate(Handle file, uint64_t bytes) override {
    enter(Call::kAllocate, io_.name_of(file));
    if (!reserves) {
      (void)!::ftruncate(file, static_cast<off_t>(bytes));  // a Handle is the descriptor
      return false;
    }
    const bool reserved = io_.allocate(file, bytes);
    record([&] { return Change{.call = Call::kAllocate, .path = io_.name_of(file), .offset = bytes}; });
    return reserved;
  }
  void sync(Handle file) override {
    enter(Call::kSync, io_.name_of(file));
    io_.sync(file);
    record([&] { return Change{.call = Call::kSync, .path = io_.name_of(file)}; });
  }
  void sync_folder(Handle folder) override {
    enter(Call::kSyncFolder, {folder, ""});
    io_.sync_folder(folder);
    record([&] { return Change{.call = Call::kSyncFolder, .path = Where(folder, "").path()}; });
  }
  void drop_cache(Handle file) override { io_.drop_cache(file); }
  void make_folder(Handle folder, const std::string& name) override {
    enter(Call::kMakeFolder, {folder, name});
    io_.make_folder(folder, name);
    record([&] { return Change{.call = Call::kMakeFolder, .path = Where(folder, name).path()}; });
  }
  void rename(Handle folder, const std::string& from, const std::string& to, Replace replace) override {
    enter(Call::kRename, {folder, from});
    io_.rename(folder, from, to, replace);
    record([&] { return Change{.call = Call::kRename, .path = Where(folder, from).path(), .to = Where(folder, to).path()}; });
  }
  bool link(Handle file, Handle folder, const std::string& name) override {
    enter(Call::kLink, {folder, name});
    if (!hard_links) return false;
    const bool linked = io_.link(file, folder, name);
    record([&] {  // with its bytes: it may lie where nothing of the command's is
      std::string bytes(io_.facts(file).bytes, '\0');
      read_exact(io_, file, 0, std::as_writable_bytes(std::span(bytes)));
      return Change{.call = Call::kLink, .path = io_.name_of(file), .to = Where(folder, name).path(), .bytes = bytes};
    });
    return linked;
  }
  bool clone(Handle from, Handle to) override {
    enter(Call::kLink, io_.name_of(to));
    return io_.clone(from, to);
  }
  void remove_file(Handle folder, const std::string& name) override {
    enter(Call::kRemove, {folder, name});
    io_.remove_file(folder, name);
    record([&] { return Change{.call = Call::kRemove, .path = Where(folder, name).path()}; });
  }
  void remove_folder(Handle folder, const std::string& name) override {
    enter(Call::kRemove, {folder, name});
    io_.remove_folder(folder, name);
    record([&] { return Change{.call = Call::kRemove, .path = Where(folder, name).path(), .folder = true}; });
  }
  bool try_lock(Handle file) override {
    enter(Call::kLock, io_.name_of(file));
    return io_.try_lock(file);
  }
  std::optional<uint64_t> free_bytes(const std::string& folder) override {
    enter(Call::kFree, folder);
    return knows_space ? io_.free_bytes(folder) : std::nullopt;
  }
  void close(Handle file) override { io_.close(file); }
  std::string name_of(Handle file) override { return io_.name_of(file); }
  uint64_t now_ns() override { return io_.now_ns(); }

 private:
  // What a call is about. A folder has the path that it has now, whatever it was opened as. The path takes memory, so it is made only when
  // it is asked for: a failing allocation would look like a call that failed after it was done.
  class Where {
   public:
    Where(const std::string& path) : path_(&path) {}
    Where(Handle folder, const std::string& name) : folder_(folder), path_(&name) {}
    std::string path() const {
      if (folder_ == kNoHandle) return *path_;
      const auto folder =
          std::filesystem::read_symlink("/proc/self/fd/" + std::to_string(folder_)).lexically_relative(std::filesystem::current_path());
      return folder == "." ? *path_ : path_->empty() ? folder.string() : (folder / *path_).string();
    }

   private:
    Handle folder_ = kNoHandle;
    const std::string* path_;
  };

  void enter(Call call, const Where& where) {
    uint64_t index = 0;
    {
      const std::lock_guard lock(mutex_);
      index = calls_++;
    }
    if (before) before(index, call, where.path());
  }
  // Takes no memory when nothing is recorded.
  template <class Make>
  void record(Make make) {
    if (!recording) return;
    const std::lock_guard lock(mutex_);
    changes.push_back(make());
  }

  Io& io_;
  std::mutex mutex_;
  uint64_t calls_ = 0;
};

}  // namespace dcp::fault
