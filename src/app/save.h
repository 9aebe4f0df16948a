// Saves tensors in memory as a DCP folder: from one process, or from several, each with its part.
//
// Ranks that save together exchange only texts, in four rounds: what each has (then all know the same layout), the files that rank 0
// created, that each has written its own, that the folder has its name. A rank that fails says so in the next round, and the failure of the
// lowest such rank is thrown on all.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "app/memory_shard.h"
#include "app/world.h"
#include "exec/synthetic.h"

namespace dcp {

struct SaveRequest {
  std::string path;
  std::span<const MemoryShard> shards;
  std::optional<Problem> failure;  // nothing can be saved on this rank; reported to all ranks
  uint32_t rank = 0, world_size = 1;
  std::function<std::vector<std::string>(const std::string&)> all_gather;
  Replace replace = Replace::kNo;
  bool sync = true;
  unsigned threads = 0;  // 0: the default
};

struct SaveResult {
  uint64_t tensor_bytes = 0, file_bytes = 0;
  uint64_t nanoseconds = 0;
};

// Throws usage for shards that are not valid boxes of their tensor or do not cover it exactly once, rank_lost, and what FileSet throws.
SaveResult save(const SaveRequest& request, World& world);

// A made-up sharded checkpoint in the new folder `path`, for measuring; `threads` 0: the default. Throws output_exists, and what writing throws.
SyntheticReport make_synthetic(World& world, const std::string& path, const SyntheticSpec& spec, unsigned threads, Replace replace);

}  // namespace dcp
