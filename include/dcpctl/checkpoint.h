// Reading: open a checkpoint once, then read its tensors one by one into memory that the caller provides.
//
//   const dcpctl::Checkpoint checkpoint = dcpctl::open("step-1000");
//   const dcpctl::TensorInfo& info = checkpoint.tensor("model.norm.weight");
//   std::vector<std::byte> bytes(info.bytes);
//   checkpoint.read(info.key, bytes);
//
// Nothing in a checkpoint is executed: pickles are only parsed.
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
  std::string dtype = {};           // as torch spells it, without "torch.": "bfloat16". Empty: unknown, and the tensor cannot be read
  std::vector<int64_t> shape = {};  // of the whole tensor, in elements, however it is sharded
  uint64_t bytes = 0;               // of all elements in that dtype
};

struct OpenOptions {
  std::string step = {};                    // which step of a run folder: a number, or "latest"; "": the path is the checkpoint
  uint64_t max_memory = uint64_t{1} << 30;  // bytes that reading may take, on top of what the process and the caller's buffers hold
  unsigned threads = 0;                     // per read; 0: the number of cores, clamped to 4..16
};

// `count` indices of a dim, beginning at `start`, `step` (1 or more) apart, all of them below the dim's size. A count of -1 runs to the end
// of the dim: with a start at its size, there are none.
struct Range {
  int64_t start = 0, count = -1, step = 1;
};

struct ReadOptions {
  std::vector<Range> slice = {};  // one per dim: their counts are the shape of what is read; empty: the whole tensor
  std::string dtype = {};         // convert to this dtype, as Tensor.to does, from one floating-point dtype to another; "": keep it
};

// Movable; a moved-from Checkpoint may only be assigned to or destroyed. All member functions may be called from several threads at once;
// each read then has its own threads and memory (OpenOptions).
class DCPCTL_API Checkpoint {
 public:
  Checkpoint(Checkpoint&&) noexcept;
  Checkpoint& operator=(Checkpoint&&) noexcept;
  ~Checkpoint();

  const std::string& path() const;                       // for a run folder: that of the step
  const std::vector<TensorInfo>& tensors() const;        // in metadata order
  const std::vector<std::string>& objects() const;       // keys of everything that is not a tensor; `dcpctl extract` shows them
  const TensorInfo& tensor(std::string_view key) const;  // throws key_missing

  // Reads the elements into `to`, row-major and little-endian, whatever the strides and the byte order in the files. `to` must have exactly
  // their size in bytes; it needs no alignment. For a slice, only the bytes that it touches are read.
  //
  // For a whole tensor, the CRC-32 that torch stores with each record is checked: a mismatch throws crc_mismatch. A CRC covers a whole
  // record, so slices are not checked. After an Error the contents of `to` are unspecified.
  //
  // Throws key_missing; usage for a buffer of another size, a slice that is not inside the tensor, or an unsupported conversion; and
  // problems of the data, such as file_missing, tensor_hole, dtype_unknown (Kind::kInput).
  void read(std::string_view key, std::span<std::byte> to, const ReadOptions& options = {}) const;

 private:
  friend DCPCTL_API Checkpoint open(const std::string& path, const OpenOptions& options);
  struct State;
  explicit Checkpoint(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

// Reads the metadata. Data files are opened on demand and stay open (at most 256) while the Checkpoint lives; the process's soft limit on
// open files is raised to allow that, where permitted. Throws no_such_path, not_checkpoint, step_missing, memory_cap, and problems of the
// metadata.
DCPCTL_API Checkpoint open(const std::string& path, const OpenOptions& options = {});

}  // namespace dcpctl
