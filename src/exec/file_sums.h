// Digests of whole files, for manifests.
#pragma once

#include <string>
#include <vector>

#include "base/workers.h"
#include "catalog/data_files.h"
#include "exec/execute.h"

namespace dcp {

struct FileSum {
  std::string name;  // in the checkpoint's folder
  uint64_t bytes = 0;
  std::string xxh3_128;  // hexadecimal, as xxh128sum prints it
};

// Digests of the checkpoint's data files and metadata, sorted by name. Each file is read from front to back, several at once: this digest
// cannot be joined from parts.
std::vector<FileSum> sum_files(DataFiles& files, FollowLinks links, unsigned workers, const Watch& watch);

}  // namespace dcp
