// Turns a checkpoint into a model file, or into a checkpoint for another number of ranks. Data is streamed, so memory is bounded, whatever
// the model's size. Every CRC of the source is checked on the way, and the output appears complete or not at all.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "dcpctl/control.h"
#include "dcpctl/error.h"
#include "dcpctl/export.h"

namespace dcpctl {

struct RewriteOptions {
  std::string step = {};                    // of the source; see OpenOptions
  bool model_only = false;                  // leave out the optimizer and whatever else a trainer keeps beside the model
  std::string dtype = {};                   // convert the model's floating-point tensors to this dtype; "": keep theirs
  bool replace = false;                     // replace an existing output once the new one is complete; otherwise output_exists
  bool sync = true;                         // wait until the output is on disk
  uint64_t max_memory = uint64_t{1} << 30;  // bytes, on top of what the process holds
  unsigned threads = 0;                     // 0: the number of cores, clamped to 4..16
  Control* control = nullptr;
};

struct RewriteReport {
  uint64_t tensors = 0, objects = 0;  // written
  uint64_t bytes_read = 0, bytes_written = 0;
  uint64_t records_checked = 0;        // whose CRC was checked
  std::vector<Problem> warnings = {};  // of the source
  double seconds = 0;
};

// The ending of `to` selects the format: .pt, .pth or .bin is a torch.save file with the nesting of the state dict, .safetensors holds the
// tensors alone. With `max_shard_bytes` it is a folder of safetensors files of at most that size each, with model.safetensors.index.json.
DCPCTL_API RewriteReport consolidate(const std::string& from, const std::string& to, const RewriteOptions& options = {},
                                     uint64_t max_shard_bytes = 0);

// Which rank holds what. Without placements and `like`, tensors that are sharded in the source are split on dim 0 over all ranks, as FSDP2
// does; the others stay whole.
struct Layout {
  uint32_t world_size = 0;                   // 0: that of the mesh, of `like`, or of the source
  std::vector<uint32_t> mesh = {};           // sizes of the device mesh, last dim fastest
  std::vector<std::string> placements = {};  // GLOB=PLACEMENTS: "*.wo.weight=shard(0),shard(1)"; the first match wins
  std::string like = {};                     // another checkpoint: tensors of equal name and shape are sharded as there; "": none
};

// Writes `to` as a torch.distributed.checkpoint folder.
DCPCTL_API RewriteReport reshard(const std::string& from, const std::string& to, const Layout& layout, const RewriteOptions& options = {});

}  // namespace dcpctl
