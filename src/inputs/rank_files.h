// torch.save files of all ranks as one checkpoint: a state dict with each of them under a name. A rank's box of a tensor is read from its
// pickle (dtensor.h); anything else that several ranks wrote is one value, and all copies must be equal.
#pragma once

#include <string>
#include <vector>

#include "inputs/open.h"

namespace dcp {

struct RankFile {
  std::string name;                // in the checkpoint's folder
  std::vector<std::string> under;  // where its root goes in the state dict
};

// Of a value that several files hold, the first copy is used. Throws ranks_disagree, torch_rank_part, and what opening a torch.save file
// throws.
OpenedCatalog open_rank_files(Store& store, const std::string& path, const std::vector<RankFile>& files, CheckpointKind kind,
                              const OpenOptions& options);

}  // namespace dcp
