// Tensors that ranks hold parts of: what the files of all ranks say of them, and the boxes that follow from it.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "catalog/catalog.h"
#include "catalog/placements.h"
#include "catalog/state_dict.h"
#include "inputs/rank_files.h"
#include "inputs/torch_file.h"

namespace dcp {

// A DTensor in a pickle: one rank's part of a tensor, and where in the tensor it lies.
//
// Grammar (torch/_tensor.py __reduce_ex__, torch/distributed/tensor/_dtensor_spec.py, torch/distributed/device_mesh.py; torch 2.4 to 2.15):
//   DTensor := _rebuild_from_type_v2(_rebuild_wrapper_subclass, DTensor, (DTensor, dtype, sizes, ...), state)
//   state   := {_local_tensor, _spec}, or a pair with it as the dict of slots
//   _spec   := DTensorSpec {mesh, placements: (Shard {dim} | _StridedShard {dim, split_factor} | Replicate, ...), ...}
//   mesh    := DeviceMesh {_coordinate_on_dim: None or a number for each mesh dim, ...}
//            {_flatten_rank_map: the mesh's ranks} or {mesh: tensor of them}
// `sizes` are those of the whole tensor. The number of ranks along a mesh dim is not read, since every release stores it differently; the
// coordinates of all ranks show it.
//
// Of FSDP1, a ShardedTensor (torch/distributed/_shard/sharded_tensor/api.py):
//   ShardedTensor := _rebuild_from_type_v2(_rebuild_wrapper_subclass, ShardedTensor, (ShardedTensor, dtype, sizes, ...), state)
//   state         := ([Shard {tensor, metadata: ShardMetadata {shard_offsets, shard_sizes, ...}}, ...], metadata, group, ...)
//   group         := an object {global_world_size, ...}
struct LocalShard {
  Value local;                        // the rank's own tensor
  std::vector<int64_t> local_sizes;   // of it
  std::vector<int64_t> sizes;         // of the whole tensor
  std::vector<Placement> placements;  // one per mesh dim
  std::vector<uint32_t> coordinate;   // of the rank, one per mesh dim; none: the rank is outside the mesh and holds nothing
  uint64_t world_size = 0;            // at least, as the mesh's ranks show; 0: they are not known
};

// nullopt: `leaf` is not a DTensor, or lacks a needed attribute.
std::optional<LocalShard> read_dtensor(const PickleGraph& graph, const StateDict::Leaf& leaf);

// What a rank has of a ShardedTensor: at most one shard.
struct OffsetShard {
  Value local;  // kUnset: the rank has none
  std::vector<int64_t> sizes, offsets, local_sizes;
  uint64_t world_size = 0;
};
std::optional<OffsetShard> read_sharded_tensor(const PickleGraph& graph, const StateDict::Leaf& leaf);

// Of the boxes that place_ranks gives, those of one rank as parts of what it holds: where it has several, its tensor has the runs of each dim
// one after the other.
void set_boxes(TensorPart& part, const RankBoxes& boxes, size_t first, size_t last);

// Files are identified by number. If a rank contradicts the others, has another rank's place in the mesh, or lacks a key, that is a finding
// about the key, which then has no boxes.
class RankShards {
 public:
  RankShards(const std::string& path, const std::vector<RankFile>& files, std::vector<Problem>& findings)
      : path_(path), files_(files), findings_(findings) {}

  // Call in the order of the files.
  void meet(size_t file, std::string_view key, const LocalShard& shard);
  // Files of this part of the state dict are missing: where the others' boxes lie is not known. Call after the last meet().
  void lose(const std::vector<std::string>& under);
  // Call after that.
  void check();
  bool has(std::string_view key) const { return of_key_.contains(key); }
  // Throws torch_rank_part.
  TensorPart part(std::string_view key, const LocalShard& shard);

 private:
  struct Sharded {
    std::vector<Placement> placements;
    std::vector<int64_t> sizes;
    Mesh mesh;
    RankBoxes boxes;
    std::vector<size_t> files, outside;  // that have it, sorted: those in the mesh, and others
    std::vector<uint32_t> coordinates;   // of each of `files`
    bool is_disputed = false;

    std::span<const uint32_t> coordinate(size_t n) const { return {coordinates.data() + n * mesh.sizes.size(), mesh.sizes.size()}; }
  };
  using Places = std::vector<std::vector<size_t>>;

  Places places(const Sharded& s) const;
  bool explain(std::string_view key, Sharded& s);
  const RankFile* lacking(const Sharded& s) const;
  void place(std::string_view key, Sharded& s) const;
  void dispute(Sharded& s, Problem why);

  const std::string& path_;
  const std::vector<RankFile>& files_;
  std::vector<Problem>& findings_;
  std::map<std::string, Sharded, std::less<>> of_key_;
};

}  // namespace dcp
