// Files that every rank wrote with torch.save as one checkpoint: the state dict that has each of them under a name. Which box of a tensor a
// rank had, its pickle says (dtensor.h); what several ranks wrote of all else is one value, and must be the same.
#pragma once

#include <string>
#include <vector>

#include "catalog/open.h"

namespace dcp {

struct RankFile {
  std::string name;                // in the checkpoint's folder
  std::vector<std::string> under;  // where in the state dict its root is
};

// Of values that several files hold the first is used. Throws ranks_disagree, torch_rank_part, and what opening a torch.save file throws.
OpenedCatalog open_rank_files(Io& io, const std::string& path, const std::vector<RankFile>& files, CheckpointKind kind,
                              const OpenOptions& options);

}  // namespace dcp
