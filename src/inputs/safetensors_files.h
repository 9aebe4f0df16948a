// Headers of safetensors files, and how several of them combine into the content of a checkpoint.
#pragma once

#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/problem.h"
#include "base/store.h"
#include "catalog/box.h"
#include "format/dcp_metadata.h"
#include "format/safetensors.h"
#include "inputs/open.h"

namespace dcp {

struct SafetensorsFile {
  std::string name;  // in its folder
  Place place;       // for messages
  SafetensorsHeader header;
  std::optional<ShardingInfo> sharding;  // as torch.distributed.checkpoint marks a shard
};

// Deducts from `limits` the memory that a JSON text of `bytes` will take, including the catalog. Throws memory_cap. Measured: 8 bytes per
// byte of a header, less for an index.
void take_json_memory(uint64_t bytes, const Place& place, Limits& limits);

struct OpenSafetensors {
  Handle file = 0;
  std::string name;
  Place place;
  uint64_t begin = 0;  // of the safetensors part of the file; entries count from there
};
// Reads the header, deducting its memory from limits.memory_bytes. Throws memory_cap, safetensors_*, sharding_info_bad; not_checkpoint for
// a Git LFS pointer.
SafetensorsFile read_safetensors_file(Store& store, OpenSafetensors open, Limits& limits);

// Merges several files into one content: tensors in order of first appearance, one chunk per shard. No header records a tensor's size, so
// it is as large as its shards reach. The result views `files` and this object.
class ShardMerger {
 public:
  explicit ShardMerger(const std::vector<SafetensorsFile>& files) : files_(files) {}
  // Throws safetensors_twice, shards_disagree, shard_twice, number_overflow.
  const MetadataContent& merge();
  // Faults of tensors whose entries cannot be read. The tensors are in the content, with an unknown dtype.
  const std::vector<Problem>& faults() const { return faults_; }

 private:
  struct Part {
    uint32_t file;
    const SafetensorsEntry* entry;
    const SavedShard* shard;  // null: a whole tensor
  };
  void add(std::string_view key, const std::vector<Part>& parts);
  void add_unknown(std::string_view key, const Part& part);
  void check(std::string_view key, const std::vector<Part>& parts) const;
  uint64_t numbers(Dims values);

  const std::vector<SafetensorsFile>& files_;
  MetadataContent out_;
  std::vector<Problem> faults_;
};

// The offsets of an entry's chunk in the whole tensor; zeros unless the file says otherwise.
std::vector<int64_t> saved_offsets(const SafetensorsFile& file, const SafetensorsEntry& entry);

// Finds gaps in numbered safetensors files.

// Finds a number that no file has. If one process wrote the files, each holds tensors, so a missing file is damage. If ranks wrote them,
// the missing rank may have had nothing to write (another one saved its replicas), but nothing in the other files shows that, so it is a
// warning. If it held a part of a tensor, that part is a hole, unless it was the end of the tensor: the tensor's true size is only known if
// some rank wrote an empty shard at the end. So a missing last rank can go unnoticed.
void find_gaps(const std::vector<std::string>& names, const std::string& path, std::vector<Problem>& findings);

// `.distcp` files that are safetensors files, beside a `.metadata`.

// FileSystemWriter(serialization_format=SAFETENSORS) writes a `.metadata` with meaningless offsets and lengths. This recognizes such files
// by their first bytes and sets the items of their chunks by name. If the metadata has two chunks of a tensor in one file, only the later
// one exists, which is damage.
void use_safetensors_items(Store& store, OpenedCatalog& opened, const OpenOptions& options);

}  // namespace dcp
