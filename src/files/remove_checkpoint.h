// Removes a step from a run folder, in an order in which an interruption never leaves a folder that looks complete: the metadata of all its
// checkpoints is removed first, and is gone from the disk before any data is removed.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/io.h"

namespace dcp {

// The folder to remove, and what must still be true of it.
struct CheckpointFolder {
  std::string name;
  FileId id{};
  unsigned levels = 0;            // folders in it that belong to it; 0: it has none
  uint64_t files = 0, bytes = 0;  // in all of them
  int64_t modified_ns = 0;        // of its newest file
};

// Returns false and removes nothing if the folder has changed, holds anything but files of a checkpoint, or another dcpctl works on it. Follows no
// link. Throws io_remove.
bool remove_checkpoint(Io& io, Handle run, const CheckpointFolder& folder);

// Whether a file of this name is removed together with the checkpoint in its folder, which has these entries. A README is one where PEFT has
// written it beside its adapter.
bool is_checkpoint_file(std::string_view name, const std::vector<DirEntry>& entries);

// Files in order of removal. Those before position `metadata` must be gone first, and those from `rank_0` on go last: without them, the rest
// could be one node's part of a save. Empty: no order leaves a folder that is recognizably incomplete.
struct RemovalOrder {
  std::vector<std::string> names;
  size_t metadata = 0, rank_0 = 0;
};
RemovalOrder removal_order(std::vector<std::string> names);

// The names of the files in each folder of a step.
using FolderNames = std::vector<std::vector<std::string>>;
// The folder that must lose its metadata first, since from then on the step is recognizably incomplete until the last of that folder's data
// is gone. nullopt: there is none.
std::optional<size_t> first_to_break(const FolderNames& folders);

}  // namespace dcp
