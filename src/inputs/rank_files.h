// Files of all ranks as one checkpoint: a state dict with each of them under a name. A rank's box of a tensor is read from its pickle
// (rank_shards.h) or known from metadata (item_layouts.h); anything else that several ranks wrote is one value, and all copies must be equal.
// A safetensors file holds a rank's part of each tensor, and nothing else.
#pragma once

#include <functional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "inputs/item_metadata.h"
#include "inputs/open.h"

namespace dcp {

class ItemLayouts;

struct RankFile {
  std::string name;  // in the checkpoint's folder
  uint32_t rank = 0;
  std::vector<std::string> under;  // the place of its root in the state dict
  std::string apart{};             // the name, below that, for what only this rank has; "": there is nothing of the kind
  FileForm form{};
};

// The kind of the files, and the keys that are not read from them: a function that gets the files that can be read, with the keys of each, and
// returns pairs of a file's number among these and a key.
struct FilesOfKind {
  using LeftOut =
      std::function<std::set<std::pair<uint32_t, std::string>>(const std::vector<RankFile>&, const std::vector<std::vector<std::string>>&)>;
  FilesOfKind(CheckpointKind of, LeftOut keys = nullptr, ItemLayouts* known = nullptr)
      : kind(of), left_out(std::move(keys)), layouts(known) {}
  CheckpointKind kind;
  LeftOut left_out;
  // Nothing but the tensors says how many ranks there are: the files of all must be there, each named as the first but for its last number.
  bool must_say_world = false;
  bool names_say_world = false;     // where no tensor says it: several files are those of all ranks
  std::vector<RankFile> missing{};  // files of ranks that there must be
  ItemLayouts* layouts;             // what is known of tensors beside what the files say; null: nothing is
};

// If several files hold a value, the first copy is used, and a contradiction about its type or shape becomes a finding. If tensors that are
// not DTensors differ between ranks, nothing says which parts they are: they are joined along OpenOptions::shards_on_dim; without that, the
// flat shards of FSDP1's optimizers are kept for each rank, and parts of a model are a finding. Throws torch_rank_part, and what opening a
// torch.save file throws.
OpenedCatalog open_rank_files(Store& store, const std::string& path, const std::vector<RankFile>& files, const FilesOfKind& as,
                              const OpenOptions& options);

}  // namespace dcp
