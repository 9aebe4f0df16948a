// torch.save files of all ranks as one checkpoint: a state dict with each of them under a name. A rank's box of a tensor is read from its
// pickle (dtensor.h); anything else that several ranks wrote is one value, and all copies must be equal.
#pragma once

#include <functional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "inputs/open.h"

namespace dcp {

struct RankFile {
  std::string name;  // in the checkpoint's folder
  uint32_t rank = 0;
  std::vector<std::string> under;  // where its root goes in the state dict
  std::string apart{};             // the name below that of what is this rank's alone; "": nothing is
};

// The kind that they are, and what is not to be read of them: called with the keys of each file, it gives keys by the file's number.
struct FilesOfKind {
  using LeftOut = std::function<std::set<std::pair<uint32_t, std::string>>(const std::vector<std::vector<std::string>>&)>;
  FilesOfKind(CheckpointKind of, LeftOut keys = nullptr) : kind(of), left_out(std::move(keys)) {}
  CheckpointKind kind;
  LeftOut left_out;
};

// Of a value that several files hold, the first copy is used, and a disagreement about what it is becomes a finding. Where tensors that
// are not DTensors differ between ranks, nothing says what they are parts of: they are joined along OpenOptions::shards_on_dim; without that, the
// flat shards that FSDP1's optimizers hold are kept for each rank, and parts of a model are a finding. Throws torch_rank_part, and what opening a torch.save file throws.
OpenedCatalog open_rank_files(Store& store, const std::string& path, const std::vector<RankFile>& files, const FilesOfKind& as,
                              const OpenOptions& options);

}  // namespace dcp
