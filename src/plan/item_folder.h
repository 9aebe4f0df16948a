// The layout of a folder of torch_checkpointing 0.1: for each item (a top-level key) and each rank R a file ITEM_R.pt, and metadata.pkl last.
//
// A rank's file has its part of each tensor, as DTensor splits it, and all of the item's objects. Which part that is stands in metadata.pkl, on
// a mesh whose name no job has: torch_checkpointing then never takes a file for a job's own, and gives every job its parts, on any number of ranks.
// With a device type, files hold DTensors on the mesh that a job of that layout has, and that job reads its own files, objects included.
#pragma once

#include <string>
#include <vector>

#include "plan/dcp_layout.h"
#include "plan/plan.h"
#include "select/select.h"

namespace dcp {

struct ItemFolderOptions {
  const DcpLayoutOptions& where;  // world_size, mesh, rules
  bool model_in_safetensors = false;
  std::string device_type;  // "": plain tensors
};

// A model whose tensors are top-level keys, as torchtitan's in DCP, becomes the item `model`, unless that is the name of another. Of other
// top-level keys with a dot, what is before it is the item, as in a checkpoint without paths.
//
// A tensor that no rule places is split on dim 0 if the source has it in several chunks; if it has none in several chunks, if it is a model's or
// an optimizer's. All others are whole in each file: a job reads items that it does not reshard as they are. Throws path_conflict, keys_collide,
// placement_no_dim, opaque_sharded, no_dtype_in_output, usage, and what splicing throws.
Plan plan_item_folder(const SourceFacts& source, const Selection& selection, const ItemFolderOptions& options);

}  // namespace dcp
