// Everything that can be read: paths of a disk, and `NAME://...` of the store that has this name.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/store.h"

namespace dcp {

// Stores by the scheme of their paths. They are made when the program starts, so a store should not connect before its first call.
using NamedStores = std::map<std::string, std::unique_ptr<Store>, std::less<>>;

// Passes each call to the store that a path belongs to. A store gets its paths whole, with scheme, and with single slashes after that.
// Every call with a path throws store_unknown if no store has its scheme.
class Stores final : public Store {
 public:
  explicit Stores(Store& disk, NamedStores named = {});

  Handle open_read(const std::string& path) override;
  std::optional<Handle> open_beneath(const std::string& root, std::string_view name, FollowLinks links) override;
  size_t read(Handle file, uint64_t offset, MutableBytes buffer) override;
  FileFacts facts(Handle file) override;
  std::optional<FileFacts> facts(const std::string& path) override;
  std::vector<DirEntry> list(const std::string& folder) override;
  void close(Handle file) override;
  std::string name_of(Handle file) override;
  ReadCapabilities read_capabilities(const std::string& path) override;

 private:
  // A file of one of the stores. The disk's own handles are passed on unchanged, so that the disk accepts them too; others are below
  // kNoHandle.
  struct At {
    Store& store;
    Handle handle;
  };
  At at(Handle handle) const;
  size_t number_of(const std::string& path) const;
  Store& of(const std::string& path) const { return *stores_[number_of(path)]; }
  Handle numbered(size_t number, Handle handle) const;

  NamedStores named_;
  std::vector<Store*> stores_;  // the disk, then the named ones, in order
};

// Outputs must be on a disk. Throws store_read_only for a path of another store, and store_unknown.
void check_on_disk(Store& store, const std::string& path);

}  // namespace dcp
