// A base for an Io that forwards to another one and overrides a few calls.
#pragma once

#include "base/io.h"

namespace dcp {

class IoWrapper : public ForwardsReads<Io> {
 public:
  using ForwardsReads::facts, ForwardsReads::ForwardsReads, ForwardsReads::list;
  Handle open_folder(const std::string& path) override { return inner_.open_folder(path); }
  std::optional<Handle> open_folder(Handle folder, const std::string& name) override { return inner_.open_folder(folder, name); }
  std::optional<FileFacts> facts(Handle folder, const std::string& name) override { return inner_.facts(folder, name); }
  std::vector<DirEntry> list(Handle folder) override { return inner_.list(folder); }
  WriteCapabilities write_capabilities(Handle folder) override { return inner_.write_capabilities(folder); }
  void check_writable(const std::string& folder) override { inner_.check_writable(folder); }
  Handle create(Handle folder, const std::string& name) override { return inner_.create(folder, name); }
  std::optional<Handle> open_write(Handle folder, const std::string& name) override { return inner_.open_write(folder, name); }
  size_t write(Handle file, uint64_t offset, Bytes bytes) override { return inner_.write(file, offset, bytes); }
  size_t write_past_cache(Handle file, uint64_t offset, Bytes bytes) override { return inner_.write_past_cache(file, offset, bytes); }
  void allocate(Handle file, uint64_t bytes) override { inner_.allocate(file, bytes); }
  void sync(Handle file) override { inner_.sync(file); }
  void sync_part(Handle file, uint64_t offset, uint64_t bytes) override { inner_.sync_part(file, offset, bytes); }
  void sync_folder(Handle folder) override { inner_.sync_folder(folder); }
  void drop_cache(Handle file) override { inner_.drop_cache(file); }
  void make_folder(Handle folder, const std::string& name) override { inner_.make_folder(folder, name); }
  std::optional<uint32_t> make_private(Handle folder) override { return inner_.make_private(folder); }
  void set_permissions(Handle folder, uint32_t permissions) override { inner_.set_permissions(folder, permissions); }
  void rename(Handle folder, const std::string& from, const std::string& to, Replace replace) override {
    inner_.rename(folder, from, to, replace);
  }
  bool link(Handle file, Handle folder, const std::string& name) override { return inner_.link(file, folder, name); }
  bool clone(Handle from, Handle to) override { return inner_.clone(from, to); }
  void remove_file(Handle folder, const std::string& name) override { inner_.remove_file(folder, name); }
  void remove_folder(Handle folder, const std::string& name) override { inner_.remove_folder(folder, name); }
  bool try_lock(Handle file) override { return inner_.try_lock(file); }
  std::optional<uint64_t> free_bytes(const std::string& folder) override { return inner_.free_bytes(folder); }
  void set_modified(Handle folder, const std::string& name, int64_t ns) override { inner_.set_modified(folder, name, ns); }
  uint64_t now_ns() override { return inner_.now_ns(); }
};

}  // namespace dcp
