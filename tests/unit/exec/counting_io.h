// An Io that passes reads on and counts how often each byte of each file is read.
#pragma once

#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "base/fake_io.h"

namespace dcp::test {

class CountingIo final : public Io {
 public:
  explicit CountingIo(FakeIo& io) : io_(io) {}

  // Reads of bytes [offset, offset + bytes) of a file since reset(): the least and the most over them.
  std::pair<unsigned, unsigned> times(const std::string& path, uint64_t offset, uint64_t bytes) {
    std::vector<unsigned>& t = times_[path];
    if (t.size() < offset + bytes) t.resize(offset + bytes);
    const auto [least, most] = std::ranges::minmax(std::span(t).subspan(offset, bytes));
    return {least, most};
  }
  void reset() { times_.clear(); }

  size_t read(Handle file, uint64_t offset, MutableBytes buffer) override {
    const size_t n = io_.read(file, offset, buffer);
    const std::string path = io_.name_of(file);
    const std::lock_guard lock(mutex_);
    std::vector<unsigned>& t = times_[path];
    if (t.size() < offset + n) t.resize(offset + n);
    for (size_t i = 0; i < n; ++i) ++t[offset + i];
    return n;
  }

  Handle open_read(const std::string& path) override { return io_.open_read(path); }
  std::optional<Handle> open_beneath(const std::string& root, std::string_view name, FollowLinks links) override {
    return io_.open_beneath(root, name, links);
  }
  FileFacts facts(Handle file) override { return io_.facts(file); }
  std::optional<FileFacts> facts(const std::string& path) override { return io_.facts(path); }
  std::vector<DirEntry> list(const std::string& folder) override { return io_.list(folder); }
  Handle open_folder(const std::string& path) override { return io_.open_folder(path); }
  std::optional<Handle> open_folder(Handle folder, const std::string& name) override { return io_.open_folder(folder, name); }
  std::optional<FileFacts> facts(Handle folder, const std::string& name) override { return io_.facts(folder, name); }
  std::vector<DirEntry> list(Handle folder) override { return io_.list(folder); }
  bool keeps_ids(Handle folder) override { return io_.keeps_ids(folder); }
  Handle create(Handle folder, const std::string& name) override { return io_.create(folder, name); }
  std::optional<Handle> open_write(Handle folder, const std::string& name) override { return io_.open_write(folder, name); }
  size_t write(Handle file, uint64_t offset, Bytes bytes) override { return io_.write(file, offset, bytes); }
  bool allocate(Handle file, uint64_t bytes) override { return io_.allocate(file, bytes); }
  void sync(Handle file) override { io_.sync(file); }
  void sync_folder(Handle folder) override { io_.sync_folder(folder); }
  void make_folder(Handle folder, const std::string& name) override { io_.make_folder(folder, name); }
  void rename(Handle folder, const std::string& from, const std::string& to, Replace replace) override {
    io_.rename(folder, from, to, replace);
  }
  bool link(Handle file, Handle folder, const std::string& name) override { return io_.link(file, folder, name); }
  void remove_file(Handle folder, const std::string& name) override { io_.remove_file(folder, name); }
  void remove_folder(Handle folder, const std::string& name) override { io_.remove_folder(folder, name); }
  bool try_lock(Handle file) override { return io_.try_lock(file); }
  std::optional<uint64_t> free_bytes(const std::string& folder) override { return io_.free_bytes(folder); }
  void close(Handle file) override { io_.close(file); }
  std::string name_of(Handle file) override { return io_.name_of(file); }
  uint64_t now_ns() override { return io_.now_ns(); }

 private:
  FakeIo& io_;
  std::mutex mutex_;
  std::map<std::string, std::vector<unsigned>> times_;
};

}  // namespace dcp::test
