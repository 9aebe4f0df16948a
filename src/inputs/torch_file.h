// One torch.save file as content of a catalog: each leaf of its state dict is a tensor or a byte item.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/store.h"
#include "catalog/build.h"
#include "catalog/torch_files.h"

namespace dcp {

// A rank's part of a tensor, and the boxes of the whole tensor in it, in row-major order of `local` (none if the rank held nothing).
struct TensorPart {
  struct Box {
    std::vector<int64_t> offsets, sizes;  // in the whole tensor
    std::vector<int64_t> local_offsets;   // in `local`
  };
  Value local;
  std::vector<int64_t> local_sizes;  // which `local` must have
  std::vector<int64_t> sizes;        // of the whole tensor
  std::vector<Box> boxes;
};
// nullopt: the leaf is not a part. Throws torch_rank_part for a part that is not understood.
using PartOf = std::function<std::optional<TensorPart>(const StateDict::Leaf&)>;

// Reads the directory and the pickle of a file. Throws what open_torch_file throws. limits.memory_bytes bounds everything that is kept.
std::unique_ptr<TorchFile> read_torch_file(Store& store, OpenFile handle, const std::string& path, const Limits& limits);

// The facts of the storage entries of all files, by Storage::value.
struct TorchFacts {
  std::vector<TorchValue> values;
  std::vector<int64_t> strides{0};  // as in Resolved
  std::vector<Problem> findings;
};
struct NamedState {
  const std::string& name;  // of the file
  StateDict& state;
  std::function<bool(std::string_view key)> is_left_out = nullptr;
};
// The content of one file, which views `state` and the graph's pickle. Adds to `facts`, and records in `file` what concerns it as a whole.
MetadataContent read_state_dict(TorchFile& file, const NamedState& of, const PartOf& part_of, TorchFacts& facts, const Limits& limits);

// Gives each item and each copy of a catalog the facts of the entry that it was built from.
void take_facts(TorchFacts facts, const EntryValues& of, TorchFiles& torch);

}  // namespace dcp
