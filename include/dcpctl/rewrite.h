// A checkpoint becomes a model file, or a checkpoint for another number of ranks. Streamed: memory is bounded, whatever the model's size.
// Every CRC of the source is compared on the way; the output appears whole or not at all.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "dcpctl/error.h"
#include "dcpctl/export.h"

namespace dcpctl {

struct RewriteOptions {
  std::string step = {};                    // of the source, as OpenOptions has it
  bool model_only = false;                  // leave out the optimizer and whatever else a trainer keeps beside the model
  std::string dtype = {};                   // the model's floating tensors are converted to this one; "": as they are
  bool replace = false;                     // an output of this name, when the new one is complete; else output_exists
  bool sync = true;                         // wait until the disk has it
  uint64_t max_memory = uint64_t{1} << 30;  // bytes, beside what the process holds
  unsigned threads = 0;                     // 0: as many as there are cores, 4 to 16
};

struct RewriteReport {
  uint64_t tensors = 0, objects = 0;  // written
  uint64_t bytes_read = 0, bytes_written = 0;
  uint64_t records_checked = 0;        // whose CRC was compared
  std::vector<Problem> warnings = {};  // of the source
  double seconds = 0;
};

// `to` says the form: .pt, .pth or .bin is a file of torch.save with the nesting of the state dict, .safetensors has the tensors alone.
// With `max_shard_bytes` it is a folder of safetensors files of at most that size each, with model.safetensors.index.json.
DCPCTL_API RewriteReport consolidate(const std::string& from, const std::string& to, const RewriteOptions& options = {},
                                     uint64_t max_shard_bytes = 0);

// Which rank gets what. Without placements and `like`, tensors that the source shards are split on dim 0 over all ranks, as FSDP2 does, and
// the others stay whole.
struct Layout {
  uint32_t world_size = 0;                   // 0: of the mesh, or of `like`
  std::vector<uint32_t> mesh = {};           // sizes of the device mesh, its last dim the fastest
  std::vector<std::string> placements = {};  // GLOB=PLACEMENTS: "*.wo.weight=shard(0),shard(1)"; the first that matches holds
  std::string like = {};                     // another checkpoint, whose boxes tensors of the same name and shape get; "": none
};

// `to` becomes a folder of torch.distributed.checkpoint.
DCPCTL_API RewriteReport reshard(const std::string& from, const std::string& to, const Layout& layout, const RewriteOptions& options = {});

}  // namespace dcpctl
