// Takes a checkpoint out of a run folder so that whatever interrupts it leaves a folder that nobody takes for complete: its metadata goes
// first, and reaches the disk before any data does.
#pragma once

#include <string>
#include <vector>

#include "base/io.h"

namespace dcp {

// What must still be true of the folder.
struct CheckpointFolder {
  std::string name;
  FileId id{};
  uint64_t files = 0, bytes = 0;
  int64_t modified_ns = 0;  // of its newest file
};

// False, and nothing is removed: it has changed, or another dcpctl works on it. No link is followed, and nothing but files of a checkpoint
// is removed: throws leftover_foreign otherwise, and io_remove.
bool remove_checkpoint(Io& io, Handle run, const CheckpointFolder& folder);

// By its name, a file that goes with the checkpoint in whose folder it lies.
bool is_checkpoint_file(std::string_view name);

// In this order; what stands before `metadata` of them has to be gone first. Empty: no order leaves a folder that is known to be incomplete.
struct RemovalOrder {
  std::vector<std::string> names;
  size_t metadata = 0;
};
RemovalOrder removal_order(std::vector<std::string> names);

}  // namespace dcp
