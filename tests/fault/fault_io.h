// The real Io with a hook before every call, a limit on what one call moves, and a record of what was written.
#pragma once

#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <limits>
#include <mutex>
#include <string>
#include <vector>

#include "base/io.h"

namespace dcp::fault {

enum class Call : uint8_t { kOpen, kRead, kFacts, kList, kCreate, kWrite, kAllocate, kSync, kSyncFolder, kMakeFolder, kRename, kRemove, kLock, kFree };

// What happened to the disk, in order.
struct Change {
  Call call{};
  std::string path, to;  // `to`: of a rename
  uint64_t offset = 0;   // of a write; the new size of kAllocate
  std::string bytes;     // of a write
  bool folder = false;   // of kRemove
};

class FaultIo final : public Io {
 public:
  explicit FaultIo(Io& io) : io_(io) {}

  // --- the script
  std::function<void(uint64_t index, Call call, const std::string& path)> before;  // of every call, from any thread; may throw
  size_t most = std::numeric_limits<size_t>::max();                                // bytes that one read or write moves
  bool reserves = true;                                                            // false: a file system without fallocate
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
  Handle create(const std::string& path, Create mode) override {
    enter(Call::kCreate, path);
    const Handle file = io_.create(path, mode);
    record([&] { return Change{.call = Call::kCreate, .path = path}; });
    return file;
  }
  size_t write(Handle file, uint64_t offset, Bytes bytes) override {
    enter(Call::kWrite, io_.name_of(file));
    const size_t n = io_.write(file, offset, bytes.first(std::min(bytes.size(), most)));
    record([&] { return Change{.call = Call::kWrite, .path = io_.name_of(file), .offset = offset, .bytes = std::string(as_text(bytes.first(n)))}; });
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
  void sync_folder(const std::string& folder) override {
    enter(Call::kSyncFolder, folder);
    io_.sync_folder(folder);
    record([&] { return Change{.call = Call::kSyncFolder, .path = folder}; });
  }
  void drop_cache(Handle file) override { io_.drop_cache(file); }
  void make_folder(const std::string& path) override {
    enter(Call::kMakeFolder, path);
    io_.make_folder(path);
    record([&] { return Change{.call = Call::kMakeFolder, .path = path}; });
  }
  void rename(const std::string& from, const std::string& to, Replace replace) override {
    enter(Call::kRename, from);
    io_.rename(from, to, replace);
    record([&] { return Change{.call = Call::kRename, .path = from, .to = to}; });
  }
  void remove_file(const std::string& path) override {
    enter(Call::kRemove, path);
    io_.remove_file(path);
    record([&] { return Change{.call = Call::kRemove, .path = path}; });
  }
  void remove_folder(const std::string& path) override {
    enter(Call::kRemove, path);
    io_.remove_folder(path);
    record([&] { return Change{.call = Call::kRemove, .path = path, .folder = true}; });
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
  void enter(Call call, const std::string& path) {
    uint64_t index = 0;
    {
      const std::lock_guard lock(mutex_);
      index = calls_++;
    }
    if (before) before(index, call, path);
  }
  // Takes no memory of its own when nothing is recorded: a failing allocation would look like a call that failed after it was done.
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
