// Which rank sees which data file: determined by looking, not by a rule, since shards lie on the nodes' own disks, on a shared file system,
// or both.
#pragma once

#include <vector>

#include "catalog/structure.h"
#include "ranks/session.h"

namespace dcp {

struct FilesTogether;

class FileVisibility {
 public:
  bool sees(uint32_t rank, uint32_t file) const { return (bits_[file * words_ + rank / 64] >> (rank % 64) & 1) != 0; }
  // The rank that reads a file for `for_rank`: itself if it can, else one that can, chosen by file to spread the load.
  uint32_t reader(uint32_t file, uint32_t for_rank) const;
  uint64_t files_seen(uint32_t rank) const;
  uint64_t files() const { return words_ == 0 ? 0 : bits_.size() / words_; }

 private:
  friend FilesTogether look_together(RankTree& tree, Session& session, Store& store, const Catalog& catalog, FollowLinks links);
  uint32_t world_ = 1;
  uint64_t words_ = 0;
  std::vector<uint64_t> bits_;  // by file, a bit for each rank
};

// What all ranks together know about the files: the sizes that any of them sees; for a file that no rank can read, the fault file_unseen,
// or the reason.
struct FilesTogether {
  FileVisibility visibility;
  std::vector<FileLook> found;
};
// Called by all ranks with the same catalog. Throws file_seen_twice if ranks see different files under one name: of another size, or copies
// whose beginnings or ends differ. Files with the same inode number and time count as the same file.
FilesTogether look_together(RankTree& tree, Session& session, Store& store, const Catalog& catalog, FollowLinks links);

}  // namespace dcp
