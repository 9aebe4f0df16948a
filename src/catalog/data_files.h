// A limited number of open descriptors of a checkpoint's data files: torch 1.13 wrote one file per item.
#pragma once

#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "base/store.h"
#include "base/workers.h"
#include "catalog/catalog.h"

namespace dcp {

// Reads a whole file of at most `cap` bytes in the folder `root`: opened like any name inside a checkpoint, so no link leads out of it.
// Throws file_missing, over_limit, and what open_beneath throws.
std::vector<std::byte> read_file_beneath(Store& store, const std::string& root, const std::string& name, FollowLinks links, uint64_t cap);

// The rank in a data file's name, `__R_N.distcp`; nullopt: another name.
std::optional<uint32_t> rank_of_file(std::string_view name);
// The name of the one file of a rank, `__R_0.distcp`.
std::string file_of_rank(uint32_t rank);

// Opens data file `file` of a catalog; nullopt: it does not exist.
std::optional<Handle> open_data_file(Store& store, const Catalog& catalog, uint32_t file, FollowLinks links);

// A Git LFS pointer: three lines of text that a clone holds in place of a large file that was not fetched. Source: git-lfs, docs/spec.md:
// the first line is `version https://git-lfs.github.com/spec/v1`, a pointer has less than 1024 bytes.
inline constexpr uint64_t kLfsPointerBytes = 1024;

inline bool is_lfs_pointer(Bytes file) {
  return file.size() <= kLfsPointerBytes && as_text(file).starts_with("version https://git-lfs.github.com/spec/v");
}

class PredictedHeads;  // items/predicted_heads.h

// Thread-safe, but for keep(). A file stays open while somebody holds the pointer, even after its eviction.
class DataFiles {
 public:
  static constexpr size_t kMax = 256;
  DataFiles(Store& store, const Catalog& catalog, FollowLinks links, size_t max = kMax)
      : store_(store), catalog_(catalog), links_(links), files_(max) {}
  // Throws file_missing, or what open_beneath throws.
  std::shared_ptr<const OpenFile> open(uint32_t file);
  Store& store() const { return store_; }
  // Small parts that several looks are about to read, one after the other: reads them now, neighbours in one piece, as many pieces at once
  // as the store wants. What cannot be read, or is too much, is left to who asks for it.
  void keep(std::vector<Item> parts, const StopFlag& stop);
  // Of a file, what is kept from `offset` on.
  Bytes kept(uint32_t file, uint64_t offset) const;
  const Catalog& catalog() const { return catalog_; }

  std::shared_ptr<PredictedHeads> predicted;  // what is still to be proven of items; nullptr: nothing

 private:
  struct Kept {
    uint32_t file = 0;
    uint64_t begin = 0;
    std::vector<std::byte> bytes;
  };
  Store& store_;
  const Catalog& catalog_;
  FollowLinks links_;
  std::vector<Kept> kept_;  // in the order of files, apart from one another
  RecentFiles files_;
};

}  // namespace dcp
