// Writing: memory of the caller's becomes a folder of torch.distributed.checkpoint that torch.distributed.checkpoint.load reads (torch 2.3
// and later, dtypes permitting): `.metadata`, and for each rank a file `__RANK_0.distcp`, in which every part of a tensor is a torch.save
// archive with its CRC-32.
//
// The folder appears under its name when all of it is on the disk, or not at all. Nothing is kept of a save that fails; what a killed
// process leaves (`.NAME.dcpctl-partial` beside it) goes with the next save to that name.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <future>
#include <memory>
#include <memory_resource>
#include <span>
#include <string>
#include <vector>

#include "dcpctl/export.h"

namespace dcpctl {

// A box of a tensor that lies in this process's memory. Numbers are in elements.
struct Shard {
  std::string key = {};               // flat name of the tensor: "model.layers.0.weight". UTF-8
  std::string dtype = {};             // as torch spells it, without "torch.": "float32", "bfloat16", "bool"
  std::vector<int64_t> shape = {};    // of the whole tensor; empty: a scalar
  std::vector<int64_t> offsets = {};  // where in it the box begins; empty: at its beginning
  std::vector<int64_t> sizes = {};    // of the box; empty: all of the tensor
  std::vector<int64_t> strides = {};  // of the box in memory; empty: row-major. Any, also negative and 0
  const void* data = nullptr;         // the box's first element, in this machine's byte order
  // Where the tensor is in the state dict: its keys from the outermost dict on, which joined with dots are `key`. Empty: `key` alone. It is
  // {"model", "layers.0.weight"} for {"model": module.state_dict()}.
  std::vector<std::string> path = {};
  bool requires_grad = false;  // what the metadata says; torch's load does not go by it
};

// The other ranks of a save. Every rank calls save() with the same path and options and with its own shards; together their boxes must
// cover every tensor once. A box that several ranks give is written by one of them, that with the fewest bytes. All ranks must see the
// folder around the path: rank 0 makes the files, each rank writes its own, rank 0 writes `.metadata` and gives the folder its name.
struct Group {
  uint32_t rank = 0, size = 1;
  // Gives every rank the texts of all, by rank; blocks until all have called it. The texts hold any byte, those of the first call all
  // keys and boxes of a rank. It is called four times a save at most, on the thread that saves (with async_save: a thread of the staging's, so
  // that it must not share a communicator with what the training does meanwhile). What it throws ends this rank's save with rank_lost.
  std::function<std::vector<std::string>(const std::string& mine)> all_gather = {};
};

struct SaveOptions {
  Group group = {};
  bool replace = false;  // a checkpoint of this name, when the new one is complete; else output_exists
  bool sync = true;      // wait until the disk has it
  unsigned threads = 0;  // that write; 0: as many as there are cores, 4 to 16
};

struct SaveReport {
  uint64_t tensor_bytes = 0;  // of all ranks' tensors
  uint64_t file_bytes = 0;    // of all files
  double seconds = 0;         // of writing
};

// Memory that `shards` point to must stay as it is until this returns. A failure of any rank is thrown on every rank.
DCPCTL_API SaveReport save(const std::string& path, std::span<const Shard> shards, const SaveOptions& options = {});

struct StagingOptions {
  // Where the buffer comes from: pinned memory, for one. Must outlive the Staging.
  std::pmr::memory_resource* memory = std::pmr::get_default_resource();
  // Copies `bytes` from a shard to the buffer: from a device, for one. Called on the thread that calls async_save, once for each run of
  // elements that lie one after the other; what it began must be done when it returns. None: memcpy, on several threads.
  std::function<void(void* to, const void* from, size_t bytes)> copy = {};
};

// The buffer that async_save copies into, and the thread that writes it. Made once and used again for each save: it grows to the largest.
class DCPCTL_API Staging {
 public:
  explicit Staging(StagingOptions options = {});
  Staging(Staging&&) noexcept;
  Staging& operator=(Staging&&) noexcept;
  ~Staging();  // waits for the save that is being written

  uint64_t bytes() const;  // that the buffer has

 private:
  friend DCPCTL_API std::future<SaveReport> async_save(const std::string& path, std::span<const Shard> shards, Staging& staging,
                                                       const SaveOptions& options);
  struct State;
  std::unique_ptr<State> state_;
};

// save() in the background. Waits until the save before it has left the buffer, copies the shards into it, and returns: from then on their
// memory may change, and what is written is what they held. get() of the future returns when the checkpoint is there, or throws what
// save() would. The future may be dropped: then nobody hears of a failure.
//
// Calls with one Staging come one after the other, of one thread. With several ranks every rank calls it, in the same order.
DCPCTL_API std::future<SaveReport> async_save(const std::string& path, std::span<const Shard> shards, Staging& staging,
                                              const SaveOptions& options = {});

}  // namespace dcpctl
