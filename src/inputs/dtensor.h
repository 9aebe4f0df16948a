// A DTensor in a pickle: one rank's part of a tensor, and where in the tensor it lies.
//
// Grammar (torch/_tensor.py __reduce_ex__, torch/distributed/tensor/_dtensor_spec.py, torch/distributed/device_mesh.py; torch 2.4 to 2.15):
//   DTensor := _rebuild_from_type_v2(_rebuild_wrapper_subclass, DTensor, (DTensor, dtype, sizes, ...), state)
//   state   := {_local_tensor, _spec}, or a pair with it as the dict of slots
//   _spec   := DTensorSpec {mesh, placements: (Shard {dim} | _StridedShard {dim, split_factor} | Replicate, ...), ...}
//   mesh    := DeviceMesh {_coordinate_on_dim: None or a number for each mesh dim, ...}
// `sizes` are those of the whole tensor. The number of ranks along a mesh dim is not read, since every release stores it differently; the
// coordinates of all ranks show it.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "catalog/placements.h"
#include "catalog/state_dict.h"

namespace dcp {

struct LocalShard {
  Value local;                        // the rank's own tensor
  std::vector<int64_t> local_sizes;   // of it
  std::vector<int64_t> sizes;         // of the whole tensor
  std::vector<Placement> placements;  // one per mesh dim
  std::vector<uint32_t> coordinate;   // of the rank, one per mesh dim; none: the rank is outside the mesh and holds nothing
};

// nullopt: `leaf` is not a DTensor, or lacks a needed attribute.
std::optional<LocalShard> read_dtensor(const PickleGraph& graph, const StateDict::Leaf& leaf);

}  // namespace dcp
