// Writing: saves tensors in the caller's memory as a folder that torch.distributed.checkpoint.load reads (torch 2.3 and later, dtypes
// permitting): `.metadata`, and one file `__RANK_0.distcp` per rank, in which every shard of a tensor is a torch.save archive with its
// CRC-32.
//
// The folder appears under its name once all of it is on disk, or not at all. A save that fails leaves nothing behind; what a killed
// process leaves (`.NAME.dcpctl-partial` beside it) is removed by the next save to that name.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <future>
#include <memory>
#include <memory_resource>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "dcpctl/control.h"
#include "dcpctl/export.h"

namespace dcpctl {

// A box of a tensor, in this process's memory. Numbers count elements.
struct Shard {
  std::string key = {};               // flat name of the tensor: "model.layers.0.weight". UTF-8
  std::string dtype = {};             // as torch spells it, without "torch.": "float32", "bfloat16", "bool"
  std::vector<int64_t> shape = {};    // of the whole tensor; empty: a scalar
  std::vector<int64_t> offsets = {};  // where in the tensor the box begins; empty: all zeros
  std::vector<int64_t> sizes = {};    // of the box; empty: the whole tensor
  std::vector<int64_t> strides = {};  // of the box in memory, negative and 0 allowed; empty: row-major
  const void* data = nullptr;         // the box's first element, in this machine's byte order
  // Where the tensor is in the state dict: its keys, outermost dict first; joined with dots they give `key`. Empty: just `key`. For
  // {"model": module.state_dict()} it is {"model", "layers.0.weight"}.
  std::vector<std::string> path = {};
  bool requires_grad = false;  // recorded in the metadata; torch's load ignores it
};

// The ranks of a save. Every rank calls save() with the same path and options and with its own shards; together their boxes must cover
// every tensor exactly once. A box that several ranks pass is written by only one of them, the one with the fewest bytes. All ranks must
// see the parent folder of the path: rank 0 creates the files, each rank writes its own, then rank 0 writes `.metadata` and gives the
// folder its name.
struct Group {
  uint32_t rank = 0, size = 1;
  // Returns the texts of all ranks, by rank; blocks until all have called it. Texts may hold any byte; those of the first call list all
  // keys and boxes of a rank. Called at most four times per save, on the thread that saves. With async_save that is the Staging's own
  // thread, so it must not share a communicator with the training that runs meanwhile. If it throws, this rank's save fails with rank_lost.
  std::function<std::vector<std::string>(const std::string& mine)> all_gather = {};
};

// An object: a file of torch.save with it.
struct Object {
  std::string key = {};
  std::vector<std::string> path = {};  // as above
  const void* data = nullptr;
  uint64_t bytes = 0;
};

struct SaveOptions {
  Group group = {};
  bool replace = false;                  // replace an existing checkpoint once the new one is complete; otherwise output_exists
  bool sync = true;                      // wait until the checkpoint is on disk
  unsigned threads = 0;                  // for writing; 0: the number of cores, clamped to 4..16
  std::span<const Object> objects = {};  // beside the tensors; each is written by the first rank that has its key
  Control* control = nullptr;
};

struct SaveReport {
  uint64_t tensor_bytes = 0;  // of all ranks' tensors
  uint64_t file_bytes = 0;    // of all files
  double seconds = 0;         // spent writing
};

// The memory that `shards` point to must not change until this returns. A failure on any rank is thrown on every rank. Throws usage for
// shards that are not boxes of a tensor, do not cover it exactly once, or contradict each other. Saves to different paths may run at the
// same time, each on its own thread.
DCPCTL_API SaveReport save(const std::string& path, std::span<const Shard> shards, const SaveOptions& options = {});

// A save whose plan and metadata are the caller's. Rank 0 makes a hidden folder, and each rank appends items to its file; once all ranks are
// complete, rank 0 writes `.metadata` and gives the folder its name. Destroying it before drops the folder.
class DCPCTL_API Saving {
 public:
  // Of the options, objects do not count. Ranks exchange texts once. Throws what save() throws.
  explicit Saving(const std::string& path, const SaveOptions& options = {});
  Saving(Saving&&) noexcept;  // the moved-from one may only be assigned to or destroyed
  Saving& operator=(Saving&&) noexcept;
  ~Saving();

  // An item of a rank's file: what the metadata says of it.
  struct Place {
    std::string file = {};  // in the folder
    uint64_t offset = 0, length = 0;
  };
  // Append an item for each; several threads may do so at once. Of a shard, `shape` need not be given, and `offsets` and `path` do not count.
  std::vector<Place> append(std::span<const Shard> shards, Control* control = nullptr);
  std::vector<Place> append(std::span<const Object> objects, Control* control = nullptr);
  void complete(Control* control = nullptr);  // this rank's file, to which no call appends any more: it gets on disk
  void finish(std::string_view metadata, Control* control = nullptr);  // on rank 0

  struct State;
  State& state() { return *state_; }  // for the library

 private:
  std::unique_ptr<State> state_;
};

struct StagingOptions {
  // Allocates the buffer, for example in pinned memory. Must outlive the Staging.
  std::pmr::memory_resource* memory = std::pmr::get_default_resource();
  // Copies `bytes` from a shard to the buffer, for example from a device. Called on the thread that calls async_save, once per contiguous
  // run of elements; the copy must be complete when it returns. Empty: memcpy, on several threads.
  std::function<void(void* to, const void* from, size_t bytes)> copy = {};
};

// The buffer that async_save copies into, and the thread that writes it out. Create it once and reuse it for every save: it grows to the
// largest.
class DCPCTL_API Staging {
 public:
  explicit Staging(StagingOptions options = {});
  Staging(Staging&&) noexcept;  // the moved-from one may only be assigned to or destroyed
  Staging& operator=(Staging&&) noexcept;
  ~Staging();  // waits for a save in progress

  uint64_t bytes() const;  // size of the buffer

 private:
  friend DCPCTL_API std::future<SaveReport> async_save(const std::string& path, std::span<const Shard> shards, Staging& staging,
                                                       const SaveOptions& options);
  struct State;
  std::unique_ptr<State> state_;
};

// save() in the background. Waits until the previous save has released the buffer, copies the shards into it and returns: from then on the
// caller may change their memory. The future's get() returns when the checkpoint is complete, or throws what save() would. The future may
// be dropped; failures then go unnoticed.
//
// Call it for one Staging from one thread only. With several ranks, every rank makes the same calls in the same order.
DCPCTL_API std::future<SaveReport> async_save(const std::string& path, std::span<const Shard> shards, Staging& staging,
                                              const SaveOptions& options = {});

}  // namespace dcpctl
