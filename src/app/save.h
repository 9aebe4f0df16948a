// Tensors in memory become a DCP folder: of one process, or of several, each with its part of them.
//
// Ranks that save together exchange texts and nothing else, in four rounds: what each has (then all know the same layout), the files that
// rank 0 has made, that each has written its own, that the folder has its name. A rank that fails says so in the round that comes next, and the
// lowest such rank's failure is thrown on all.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "app/memory_shard.h"
#include "app/world.h"

namespace dcp {

struct SaveRequest {
  std::string path;
  std::span<const MemoryShard> shards;
  std::optional<Problem> failure;  // nothing can be saved here: for all ranks to know
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

// Throws usage for shards that are no boxes of one tensor each or do not cover it once, rank_lost, and what FileSet throws.
SaveResult save(const SaveRequest& request, World& world);

}  // namespace dcp
