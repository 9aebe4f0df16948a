// Saves tensors in memory as a DCP folder: from one process, or from several, each with its part.
//
// Ranks that save together exchange only texts, in four rounds: what each has (then all know the same layout), the files that rank 0
// created, that each has written its own, that the folder has its name. A rank that fails says so in the next round, and the failure of the
// lowest such rank is thrown on all.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
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
  std::span<const MemoryObject> objects{};  // each is written by the first rank that has its key
  std::optional<Problem> failure;           // nothing can be saved on this rank; reported to all ranks
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

// A save whose plan and metadata are the caller's: items are appended to a file of each rank, in a folder that is hidden until it is complete.
class StepSave {
 public:
  // Rank 0 makes the folder; of the request, shards and objects do not count. Throws what save() throws. Io is used for as long as it lives.
  StepSave(const SaveRequest& request, World& world);
  ~StepSave();  // drops what is not finished

  struct Item {
    const MemoryShard* shard = nullptr;
    const MemoryObject* object = nullptr;  // or an object
  };
  struct Place {
    uint64_t offset = 0, length = 0;
  };
  // Writes an item for each to the file of this rank. Several threads may call it. Throws usage for what is no shard or object, or after complete().
  std::vector<Place> append(std::span<const Item> items, World& world);
  const std::string& file_name() const { return name_; }  // in the folder
  // The file of this rank gets on disk. Throws usage if an append has failed or goes on.
  void complete(World& world);
  // On rank 0, once all ranks are complete: writes the metadata, and gives the folder its name.
  void finish(std::string_view metadata, World& world);

 private:
  struct Files;
  const uint32_t rank_, world_size_;
  const unsigned threads_;
  const std::string path_, name_;
  std::unique_ptr<Files> files_;
  std::mutex mutex_;  // the rest
  uint64_t end_ = 0;
  size_t appending_ = 0;  // calls
  bool is_complete_ = false, is_finished_ = false, has_failed_ = false;
};

// A made-up sharded checkpoint in the new folder `path`, for measuring; `threads` 0: the default. Throws output_exists, and what writing throws.
SyntheticReport make_synthetic(World& world, const std::string& path, const SyntheticSpec& spec, unsigned threads, Replace replace);

}  // namespace dcp
