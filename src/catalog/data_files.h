// Open descriptors of a checkpoint's data files, at most kMost at once: torch 1.13 wrote a file for every item.
#pragma once

#include <list>
#include <memory>
#include <mutex>
#include <unordered_map>

#include "base/io.h"
#include "catalog/catalog.h"

namespace dcp {

// Opens data file `file` of a catalog; nullopt: there is none.
std::optional<Handle> open_data_file(Io& io, const Catalog& catalog, uint32_t file, FollowLinks links);

// Thread-safe. A file stays open while somebody holds the pointer, also past its eviction.
class DataFiles {
 public:
  DataFiles(Io& io, const Catalog& catalog, FollowLinks links) : io_(io), catalog_(catalog), links_(links) {}
  // Throws file_missing, or what open_beneath throws.
  std::shared_ptr<const OpenFile> open(uint32_t file);
  Io& io() const { return io_; }

 private:
  static constexpr size_t kMost = 256;
  Io& io_;
  const Catalog& catalog_;
  FollowLinks links_;
  std::mutex mutex_;
  std::list<std::pair<uint32_t, std::shared_ptr<const OpenFile>>> recent_;  // most recently used first
  std::unordered_map<uint32_t, decltype(recent_)::iterator> by_file_;
};

}  // namespace dcp
