// Reading: a checkpoint is opened once, its tensors are then read one by one into memory of the caller's.
//
//   const dcpctl::Checkpoint checkpoint = dcpctl::open("step-1000");
//   const dcpctl::TensorInfo& info = checkpoint.tensor("model.norm.weight");
//   std::vector<std::byte> bytes(info.bytes);
//   checkpoint.read(info.key, bytes);
//
// Nothing of a checkpoint is executed: pickles are parsed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "dcpctl/export.h"

namespace dcpctl {

struct TensorInfo {
  std::string key = {};             // flat, as torch's planner names it: "model.layers.0.weight"
  std::string dtype = {};           // as torch spells it, without "torch.": "bfloat16". Empty: not known, and not readable
  std::vector<int64_t> shape = {};  // of the whole tensor, in elements, however it is sharded
  uint64_t bytes = 0;               // of all elements in that dtype
};

struct OpenOptions {
  std::string step = {};                    // of a folder of steps: a number, or "latest"; "": the path is the checkpoint
  uint64_t max_memory = uint64_t{1} << 30;  // bytes that reading may take beside what the process holds and what the caller gives
  unsigned threads = 0;                     // of a read; 0: as many as there are cores, 4 to 16
};

// `count` indices of a dim from `start` on, `step` (1 or more) apart. A count of -1 goes on to the dim's end.
struct Range {
  int64_t start = 0, count = -1, step = 1;
};

struct ReadOptions {
  std::vector<Range> slice = {};  // one for each dim, or none at all: the whole tensor
  std::string dtype = {};         // converted to this one, as Tensor.to does; "": the checkpoint's. Floating point only
};

// Movable. All its functions may be called from several threads at once.
class DCPCTL_API Checkpoint {
 public:
  Checkpoint(Checkpoint&&) noexcept;
  Checkpoint& operator=(Checkpoint&&) noexcept;
  ~Checkpoint();

  const std::string& path() const;                       // of a folder of steps: the step
  const std::vector<TensorInfo>& tensors() const;        // in the order of the metadata
  const std::vector<std::string>& objects() const;       // keys of what is no tensor; `dcpctl extract` shows them
  const TensorInfo& tensor(std::string_view key) const;  // throws key_missing

  // The elements, row-major and little-endian, whatever the strides and the byte order in the files. `to` must have their size in bytes,
  // and needs no alignment. Of a slice only what it touches is read.
  //
  // A whole tensor's CRC-32 sums, which torch stores with each record, are compared: a difference is crc_mismatch. They are sums of whole
  // records, so of a slice nothing is compared. After an Error `to` holds nothing of use.
  void read(std::string_view key, std::span<std::byte> to, const ReadOptions& options = {}) const;

 private:
  friend DCPCTL_API Checkpoint open(const std::string& path, const OpenOptions& options);
  struct State;
  explicit Checkpoint(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

// Reads the metadata. Files of the checkpoint are opened when they are needed and stay open (at most 256) while the Checkpoint lives; the
// process's soft limit of open files is raised to what that takes, if it may be.
DCPCTL_API Checkpoint open(const std::string& path, const OpenOptions& options = {});

}  // namespace dcpctl
