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

#include "base/io_wrapper.h"

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

class FaultIo final : public IoWrapper {
 public:
  using IoWrapper::IoWrapper;

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
    return inner_.open_read(path);
  }
  std::optional<Handle> open_beneath(const std::string& root, std::string_view name, FollowLinks links) override {
    enter(Call::kOpen, root + "/" + std::string(name));
    return inner_.open_beneath(root, name, links);
  }
  size_t read(Handle file, uint64_t offset, MutableBytes buffer) override {
    enter(Call::kRead, inner_.name_of(file));
    return inner_.read(file, offset, buffer.first(std::min(buffer.size(), most)));
  }
  FileFacts facts(Handle file) override {
    enter(Call::kFacts, inner_.name_of(file));
    return inner_.facts(file);
  }
  std::optional<FileFacts> facts(const std::string& path) override {
    enter(Call::kFacts, path);
    return inner_.facts(path);
  }
  std::vector<DirEntry> list(const std::string& folder) override {
    enter(Call::kList, folder);
    return inner_.list(folder);
  }
  Handle open_folder(const std::string& path) override {
    enter(Call::kOpen, path);
    return inner_.open_folder(path);
  }
  std::optional<Handle> open_folder(Handle folder, const std::string& name) override {
    enter(Call::kOpen, {folder, name});
    return inner_.open_folder(folder, name);
  }
  std::optional<FileFacts> facts(Handle folder, const std::string& name) override {
    enter(Call::kFacts, {folder, name});
    return inner_.facts(folder, name);
  }
  std::vector<DirEntry> list(Handle folder) override {
    enter(Call::kList, {folder, ""});
    return inner_.list(folder);
  }
  Handle create(Handle folder, const std::string& name) override {
    enter(Call::kCreate, {folder, name});
    const Handle file = inner_.create(folder, name);
    record([&] { return Change{.call = Call::kCreate, .path = Where(folder, name).path()}; });
    return file;
  }
  std::optional<Handle> open_write(Handle folder, const std::string& name) override {
    enter(Call::kCreate, {folder, name});
    return inner_.open_write(folder, name);
  }
  size_t write(Handle file, uint64_t offset, Bytes bytes) override {
    enter(Call::kWrite, inner_.name_of(file));
    const size_t n = inner_.write(file, offset, bytes.first(std::min(bytes.size(), most)));
    record([&] {
      return Change{.call = Call::kWrite, .path = inner_.name_of(file), .offset = offset, .bytes = std::string(as_text(bytes.first(n)))};
    });
    return n;
  }
  size_t write_past_cache(Handle file, uint64_t offset, Bytes bytes) override { return write(file, offset, bytes); }
  WriteCapabilities write_capabilities(Handle folder) override {
    WriteCapabilities can = inner_.write_capabilities(folder);
    can.reserves = can.reserves && reserves;
    return can;
  }
  void allocate(Handle file, uint64_t bytes) override {
    enter(Call::kAllocate, inner_.name_of(file));
    if (!reserves) return static_cast<void>(!::ftruncate(file, static_cast<off_t>(bytes)));  // a Handle is the descriptor
    inner_.allocate(file, bytes);
    record([&] { return Change{.call = Call::kAllocate, .path = inner_.name_of(file), .offset = bytes}; });
  }
  void sync(Handle file) override {
    enter(Call::kSync, inner_.name_of(file));
    inner_.sync(file);
    record([&] { return Change{.call = Call::kSync, .path = inner_.name_of(file)}; });
  }
  void sync_folder(Handle folder) override {
    enter(Call::kSyncFolder, {folder, ""});
    inner_.sync_folder(folder);
    record([&] { return Change{.call = Call::kSyncFolder, .path = Where(folder, "").path()}; });
  }
  void make_folder(Handle folder, const std::string& name) override {
    enter(Call::kMakeFolder, {folder, name});
    inner_.make_folder(folder, name);
    record([&] { return Change{.call = Call::kMakeFolder, .path = Where(folder, name).path()}; });
  }
  void rename(Handle folder, const std::string& from, const std::string& to, Replace replace) override {
    enter(Call::kRename, {folder, from});
    inner_.rename(folder, from, to, replace);
    record([&] { return Change{.call = Call::kRename, .path = Where(folder, from).path(), .to = Where(folder, to).path()}; });
  }
  bool link(Handle file, Handle folder, const std::string& name) override {
    enter(Call::kLink, {folder, name});
    if (!hard_links) return false;
    const bool linked = inner_.link(file, folder, name);
    record([&] {  // with its bytes: it may lie where nothing of the command's is
      std::string bytes(inner_.facts(file).bytes, '\0');
      read_exact(inner_, file, 0, std::as_writable_bytes(std::span(bytes)));
      return Change{.call = Call::kLink, .path = inner_.name_of(file), .to = Where(folder, name).path(), .bytes = bytes};
    });
    return linked;
  }
  bool clone(Handle from, Handle to) override {
    enter(Call::kLink, inner_.name_of(to));
    return inner_.clone(from, to);
  }
  void remove_file(Handle folder, const std::string& name) override {
    enter(Call::kRemove, {folder, name});
    inner_.remove_file(folder, name);
    record([&] { return Change{.call = Call::kRemove, .path = Where(folder, name).path()}; });
  }
  void remove_folder(Handle folder, const std::string& name) override {
    enter(Call::kRemove, {folder, name});
    inner_.remove_folder(folder, name);
    record([&] { return Change{.call = Call::kRemove, .path = Where(folder, name).path(), .folder = true}; });
  }
  bool try_lock(Handle file) override {
    enter(Call::kLock, inner_.name_of(file));
    return inner_.try_lock(file);
  }
  std::optional<uint64_t> free_bytes(const std::string& folder) override {
    enter(Call::kFree, folder);
    return knows_space ? inner_.free_bytes(folder) : std::nullopt;
  }

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

  std::mutex mutex_;
  uint64_t calls_ = 0;
};

}  // namespace dcp::fault
