// metadata.pkl of torch_checkpointing 0.1 (distributed_metadata.py, dtensor_metadata.py, default_metadata.py, checkpoint_layout.py): a pickle of
// dicts, lists, tuples, text, numbers and None, which says where each item's file of each rank is, and how its tensors are sharded.
//
//   {"metadata": {ITEM: {"nested_path_to_metadata": {PATH: [{"sharding_metadata": SHARDING, "ranks": (RANK, ...)}, ...]},
//                        "rank_to_layout_info": {RANK: None | LAYOUT}}},
//    "world_size": N, "version": "2.0"}
//   PATH     := JSON text of a list of names and positions
//   SHARDING := {"type": "DTensorShardingMetadata", "data": {"global_shape", "dtype", "stride", "placements": [PLACEMENT...],
//                "mesh_spec": {"device_type", "mesh_shape", "mesh_data": ranks, row-major, "mesh_dim_names"}}}
//             | {"type": "default_tensor_v1", "data": {"global_shape", "dtype", "global_offsets", "local_offsets", "local_sizes"}}
//   PLACEMENT := {"type": "Shard", "dim"} | {"type": "StridedShard", "dim", "split_factor"} | {"type": "Replicate"}
//   LAYOUT   := {"file_path", "serialization_format": {"type": NAME + "Serialization"}}; None stands for ITEM_RANK.pt
//
// Version 1.0 has {"metadata": {PATH that begins with the item: [...]}, "rank_to_layout_info_mappings": {RANK: {ITEM: None | LAYOUT}}}.
// A rank's file of an item is there if the ranks of a group name it, unless all that the group has is replicated. Items without a resharder are not listed.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "base/limits.h"
#include "base/problem.h"
#include "catalog/placements.h"
#include "format/dtype.h"
#include "inputs/torch_file.h"

namespace dcp {

enum class FileForm : uint8_t { kTorch, kSafetensors, kJson, kRaw };

struct ItemFile {
  std::string name;
  FileForm form{};
};

// A tensor on the ranks of one group.
struct ItemLayout {
  std::vector<int64_t> sizes;
  DType dtype{};
  uint32_t ranks = 0;                 // in ItemMetadata::rank_lists
  uint32_t mesh = UINT32_MAX;         // in ItemMetadata::meshes; none: `boxes` are what each of the ranks holds
  std::vector<Placement> placements;  // one a mesh dim
  std::vector<TensorPart::Box> boxes;

  // Each rank that has it has all of it. The package says so of every plain tensor, and that all ranks have it, even if it is one stage's.
  bool is_replicated() const;
};

struct ItemMesh {
  Mesh mesh;
  std::map<uint32_t, uint32_t> position_of;  // of a rank in the mesh, row-major
};

struct ListedTensor {
  std::vector<std::string> path;  // in the item; positions in decimal
  std::vector<bool> is_position;
  std::vector<ItemLayout> groups;
};

struct ListedItem {
  std::map<uint32_t, ItemFile> files;                        // of every rank
  std::map<std::string, ListedTensor, std::less<>> tensors;  // by key: the item's name and the path, joined by dots
  std::vector<bool> needs;                                   // by rank: whether its file has to be there
};

struct ItemMetadata {
  uint32_t world_size = 0;
  std::map<std::string, ListedItem> items;
  std::vector<ItemMesh> meshes;
  std::vector<std::vector<uint32_t>> rank_lists;  // sorted
  std::vector<std::string> globals;               // none in what the package writes
  uint64_t trailing_bytes = 0;

  bool has_rank(const ItemLayout& layout, uint32_t rank) const;
};

// Throws not_checkpoint for another pickle, metadata_field for what a tensor cannot have, and the pickle_* errors.
ItemMetadata read_item_metadata(Bytes pickle, const Place& place, const Limits& limits);

}  // namespace dcp
