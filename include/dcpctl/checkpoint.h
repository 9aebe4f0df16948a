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
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "dcpctl/control.h"
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

  // --- which keys, under which names, in which dtypes; as the options of the dcpctl program that have these names
  std::vector<std::string> include = {}, exclude = {};  // globs: only these keys, and of them not those
  std::string root = {};                                // dotted path: this part of the state dict, with its own names
  bool model_only = false;                              // without what a trainer keeps beside the model
  std::vector<std::string> renames = {};                // "REGEX=>REPLACEMENT"
  std::string dtype = {};                               // of the model's floating-point tensors
  std::vector<std::string> dtype_rules = {};            // "GLOB=DTYPE", "GLOB=keep"

  // --- another form of the model
  std::string map = {};         // a built-in map, a file, or "auto"
  std::string map_to = {};      // a second map, from the published names to another trainer's
  std::string map_config = {};  // the model's config.json; "": the one beside the checkpoint

  std::optional<uint32_t> prefer_rank = {};  // whose copy of a key is used where several ranks wrote it
  Control* control = nullptr;
};

// What a checkpoint is.
struct Facts {
  std::string kind = {};              // as `dcpctl inspect --json` has it: "dcp", "safetensors"
  std::string written_by = {};        // releases of torch: ">=2.15", "2.4 - 2.6"; "": not known
  std::optional<uint64_t> step = {};  // that the name of its folder, or of one above, says
  uint32_t ranks = 0;                 // that saved it, or that its chunks suggest; 0: no tensor is sharded
  uint64_t chunks = 0;
};

// A step on the way to a key in the state dict: the key of a dict, or a position in a list.
struct PathPart {
  std::string name = {};
  int64_t position = -1;    // >= 0: in a list
  bool is_integer = false;  // the key of the dict is an integer, which `name` spells
};

// A box of a tensor, and the item that holds it.
struct Chunk {
  std::vector<int64_t> offsets = {}, sizes = {};
  std::string file = {};  // in the checkpoint's folder; "": no file has it
  uint64_t offset = 0, length = 0;
};

// What a pickle says of an object, without loading it.
struct ObjectInfo {
  std::string value = {};                    // JSON (c.h has the form); "": it does not hold plain values alone
  std::vector<std::string> would_call = {};  // names that loading it would import
  std::vector<std::string> refused = {};     // those of them that torch.load(weights_only=True) refuses
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

// A part of a tensor, and where it goes.
struct Part {
  std::string_view key = {};
  std::vector<Range> slice = {};      // as above
  void* to = nullptr;                 // the first element
  std::vector<int64_t> strides = {};  // of the memory, one per dim, in bytes, of any sign; empty: row-major without gaps
  std::string dtype = {};             // of the memory, as above
};

struct ReadAllOptions {
  unsigned threads = 0;  // 0: as opened
  Control* control = nullptr;
};

struct ReadReport {
  uint64_t bytes_read = 0;            // from files
  uint64_t records_compared = 0;      // whose CRC was compared
  uint64_t records_not_compared = 0;  // that were read only in part, or whose writer stored no CRC
  double seconds = 0;
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
  Facts facts() const;
  std::vector<PathPart> path_of(std::string_view key) const;  // of a tensor or an object; this and the next three throw key_missing
  std::vector<Chunk> chunks_of(std::string_view key) const;   // of an object: its item, with no dims
  std::string placement_of(std::string_view key) const;       // of a tensor, in words: "whole", "Shard(0) x8"
  ObjectInfo object(std::string_view key) const;
  // A torch.save file of an object: the stored item if it is one, else one that is made of it.
  std::vector<std::byte> object_file(std::string_view key, Control* control = nullptr) const;

  // Reads the elements into `to`, row-major and little-endian, whatever the strides and the byte order in the files. `to` must have exactly
  // their size in bytes; it needs no alignment. For a slice, only the bytes that it touches are read.
  //
  // For a whole tensor, the CRC-32 that torch stores with each record is checked: a mismatch throws crc_mismatch. A CRC covers a whole
  // record, so slices are not checked. After an Error the contents of `to` are unspecified.
  //
  // Throws key_missing; usage for a buffer of another size, a slice that is not inside the tensor, or an unsupported conversion; and
  // problems of the data, such as file_missing, tensor_hole, dtype_unknown (Kind::kInput).
  void read(std::string_view key, std::span<std::byte> to, const ReadOptions& options = {}) const;

  // Reads all parts by one plan: in the order of the files, neighbouring ranges together, and no byte of a tensor twice, however many parts
  // need it; compressed tensors and what a map makes are read once whole, and once for all parts of them. A record's CRC is compared if the
  // parts cover the record. No two parts may share memory. Nothing is written to it before all
  // parts have been found to be right. Throws what read() throws.
  ReadReport read(std::span<const Part> parts, const ReadAllOptions& options = {}) const;

  struct State;
  const State& state() const { return *state_; }  // for the library

 private:
  friend DCPCTL_API Checkpoint open(const std::string& path, const OpenOptions& options);
  explicit Checkpoint(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

// Reads the metadata. Data files are opened on demand and stay open (at most 256) while the Checkpoint lives; the process's soft limit on
// open files is raised to allow that, where permitted. Throws no_such_path, not_checkpoint, step_missing, memory_cap, and problems of the
// metadata.
DCPCTL_API Checkpoint open(const std::string& path, const OpenOptions& options = {});

}  // namespace dcpctl
