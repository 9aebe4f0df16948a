// Tensors that ranks hold parts of: what the files of all ranks say of them, and the boxes that follow from it.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
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
//            {_flatten_rank_map: the root mesh's ranks, _layout: AXES} (from torch 2.10) or {mesh: a tensor, _flatten_mesh_list: its elements}
//   AXES    := _MeshLayout {axes: (_FlatLayout {shape, stride}, ...)} or (before torch 2.15) {shape, stride}, an element of which may be nested
// `sizes` are those of the whole tensor. Where a mesh does not say how many ranks are along its dims, the coordinates of all ranks show it.
//
// Of FSDP1, a ShardedTensor (torch/distributed/_shard/sharded_tensor/api.py):
//   ShardedTensor := _rebuild_from_type_v2(_rebuild_wrapper_subclass, ShardedTensor, (ShardedTensor, dtype, sizes, ...), state)
//   state         := ([Shard {tensor, metadata: ShardMetadata {shard_offsets, shard_sizes, ...}}, ...], metadata, group, ...)
//   group         := an object {local_rank, global_rank, local_world_size, global_world_size}
struct LocalShard {
  Value local;                        // the rank's own tensor
  std::vector<int64_t> local_sizes;   // of it
  std::vector<int64_t> sizes;         // of the whole tensor
  std::vector<Placement> placements;  // one per mesh dim
  std::vector<uint32_t> coordinate;   // of the rank, one per mesh dim; none: the rank is outside the mesh and holds nothing
  Value mesh;                         // the object
};

// nullopt: `leaf` is not a DTensor, or lacks a needed attribute.
std::optional<LocalShard> read_dtensor(const PickleGraph& graph, const StateDict::Leaf& leaf);

// What a rank has of a ShardedTensor: at most one shard.
struct OffsetShard {
  Value local;  // kUnset: the rank has none
  std::vector<int64_t> sizes, offsets, local_sizes;
  uint64_t world_size = 0;
  int64_t rank = -1;  // -1: it does not say
};
std::optional<OffsetShard> read_sharded_tensor(const PickleGraph& graph, const StateDict::Leaf& leaf);

// Of the boxes that place_ranks gives, those of one rank as parts of what it holds: where it has several, its tensor has the runs of each dim
// one after the other.
void set_boxes(TensorPart& part, const RankBoxes& boxes, size_t first, size_t last);

// The ranks that share a tensor, row-major, and how many of them are along each dim.
struct RankMesh {
  std::vector<uint32_t> sizes, ranks;
  auto operator<=>(const RankMesh&) const = default;
};
// "[0, 1, 2, 3], 2x2"
std::string mesh_text(const RankMesh& mesh);
// What a rank's DTensor says of its place, if another rank is there; "": the rank is.
std::string other_place(const RankMesh& mesh, const LocalShard& shard, uint32_t rank);

// The meshes of all files' DTensors. A pickle has a mesh once, for all tensors.
class RankMeshes {
 public:
  struct Seen {
    uint64_t world_size = 0;         // at least, as the ranks show; 0: they are not known
    const RankMesh* mesh = nullptr;  // null: it is not known; equal meshes are one
  };
  // Of a DTensor in file number `file`, which is rank `rank`'s.
  Seen of(size_t file, uint32_t rank, const PickleGraph& graph, const LocalShard& shard);

 private:
  std::map<std::pair<size_t, uint64_t>, Seen> seen_;  // by file, and position in its graph
  std::set<RankMesh> meshes_;
};

// Files are identified by number. If a rank contradicts the others, has another rank's place in the mesh, or lacks a key, that is a finding
// about the key, which then has no boxes.
class RankShards {
 public:
  RankShards(const std::string& path, const std::vector<RankFile>& files, std::vector<Problem>& findings)
      : path_(path), files_(files), findings_(findings) {}

  // Call in the order of the files. They return how many ranks there are at least; 0: it is not known.
  uint64_t meet(size_t file, std::string_view key, const LocalShard& shard, const PickleGraph& graph);
  uint64_t meet(size_t file, std::string_view key, const OffsetShard& shard);
  void meet_plain(size_t file, std::string_view key) { plain_.try_emplace(std::string(key), file); }
  // Files of this part of the state dict are missing: where the others' boxes lie is not known. Call after the last meet().
  void lose(const std::vector<std::string>& under);
  // Call after that.
  void check();
  bool has(std::string_view key) const { return of_key_.contains(key); }
  // Of a tensor that other ranks have shards of; null: none has.
  const std::vector<int64_t>* sizes_of(std::string_view key) const;
  // Throws torch_rank_part.
  TensorPart part(size_t file, std::string_view key, const LocalShard& shard);
  TensorPart part(std::string_view key, const OffsetShard& shard) const;
  // Of a DTensor in a file; null: it is not known.
  const RankMesh* mesh_of(size_t file, const LocalShard& shard, const PickleGraph& graph) {
    return meshes_.of(file, files_[file].rank, graph, shard).mesh;
  }

 private:
  struct Sharded {
    std::vector<Placement> placements;
    std::vector<int64_t> sizes;
    Mesh mesh;
    RankBoxes boxes;
    std::vector<size_t> files, outside;  // that have it, sorted: those in the mesh, and others
    std::vector<uint32_t> coordinates;   // of each of `files`
    struct Claim {
      const RankMesh* mesh = nullptr;
      size_t file = 0, count = 0;  // the first of those that name the mesh, and how many do
    };
    std::vector<Claim> meshes;  // distinct ones that are known
    bool is_disputed = false;

    std::span<const uint32_t> coordinate(size_t n) const { return {coordinates.data() + n * mesh.sizes.size(), mesh.sizes.size()}; }
  };
  using Places = std::vector<std::vector<size_t>>;

  void meet_mesh(size_t file, std::string_view key, Sharded& s, const LocalShard& shard, const RankMesh& mesh);
  void check_meshes(std::string_view key, Sharded& s);
  Place place_in(size_t file, std::string_view key) const;
  Places places(const Sharded& s) const;
  bool explain(std::string_view key, Sharded& s);
  const RankFile* lacking(const Sharded& s) const;
  void place(std::string_view key, Sharded& s) const;
  void dispute(Sharded& s, Problem why);
  void dispute_offsets(size_t file, std::string_view key, std::string got, std::string expected);
  void check_plain();

  const std::string& path_;
  const std::vector<RankFile>& files_;
  std::vector<Problem>& findings_;
  RankMeshes meshes_;
  std::map<std::string, Sharded, std::less<>> of_key_;
  struct Offsets {
    size_t file = 0;
    uint64_t world_size = 0;
    std::vector<int64_t> sizes;
  };
  std::map<std::string, Offsets, std::less<>> offset_of_;  // of ShardedTensors, as the first file has them
  std::map<std::string, size_t, std::less<>> plain_;       // of plain tensors, the first file
  std::set<std::string, std::less<>> disputed_offsets_;
};

}  // namespace dcp
