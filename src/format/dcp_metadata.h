// Reader of `.metadata` and of rank-local `__R.metadata`: one pickle of torch.distributed.checkpoint.metadata.Metadata.
//
// Grammar (torch 1.13 to 2.15, torch/distributed/checkpoint/metadata.py; module names by version in the .cc):
//   Metadata { state_dict_metadata: dict fqn -> TensorStorageMetadata | BytesStorageMetadata, planner_data, storage_data:
//              dict MetadataIndex -> _StorageInfo, storage_meta?, version?, ...unknown attributes }
//   TensorStorageMetadata { properties: TensorProperties, size: Size, chunks: [ChunkStorageMetadata {offsets, sizes}] }
//   TensorProperties: state is a tuple (dtype, layout, requires_grad, memory format, pin_memory[, strides])
//   MetadataIndex { fqn, index?, offset? }   _StorageInfo { relative_path, offset, length, transform_descriptors? }
//
// Values are typed and bounded here. Holes, overlaps and missing items are found by the catalog.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "base/limits.h"
#include "base/members.h"
#include "base/problem.h"
#include "format/dtype.h"

namespace dcp {

// A key of a state dict: whether it names a tensor or a byte item, and its number among its own kind.
struct KeyRef {
  int64_t raw = 0;  // tensor t as t, byte item b as ~b

  static constexpr KeyRef tensor_at(uint64_t number) { return {static_cast<int64_t>(number)}; }
  static constexpr KeyRef blob_at(uint64_t number) { return {~static_cast<int64_t>(number)}; }
  constexpr bool is_blob() const { return raw < 0; }
  constexpr uint32_t tensor() const { return static_cast<uint32_t>(raw); }  // only if it is a tensor
  constexpr uint32_t blob() const { return static_cast<uint32_t>(~raw); }   // only if it is a byte item
  auto operator<=>(const KeyRef&) const = default;
};
DCP_MEMBERS(KeyRef, raw);

// A release of torch: 213 is 2.13.
inline std::string torch_release(unsigned version) { return std::to_string(version / 100) + "." + std::to_string(version % 100); }

// An attribute of Metadata that torch does not know: Megatron-Core's mcore_data, a framework's notes.
struct ExtraAttribute {
  std::string name;
  std::string type;       // "dict", "module.Class"
  std::string not_plain;  // why its value is missing: what it holds beside None, numbers, text, lists, tuples, dicts and torch.Size
  bool is_dict = false;   // with text for keys
  std::vector<std::pair<std::string, std::string>> entries;  // of such a dict: key, and opcodes that push its value without a memo
  std::string value;                                         // of anything else
  // Plans of the original save are useless for another layout.
  bool kept() const { return not_plain.empty() && name != "all_local_plans"; }
  bool operator==(const ExtraAttribute&) const = default;
};

// All text is a view into the pickle's bytes, which must outlive this unless hold_text() has copied it. `ints` holds every Size: a position in it is an *_at.
struct MetadataContent {
  struct Tensor {
    std::string_view key;
    DType dtype{};                // meaningless if !dtype_known
    std::string_view dtype_name;  // as named in the file, without `torch.`
    bool dtype_known = true;
    bool strided = true;  // layout torch.strided
    bool requires_grad = false;
    uint32_t rank = 0;
    uint64_t dims_at = 0;  // rank numbers, each >= 0
    uint64_t first_chunk = 0;
    uint64_t chunk_count = 0;
  };
  struct Chunk {  // both have the tensor's rank; offsets and sizes are >= 0 (checked); not checked against the tensor
    uint64_t offsets_at = 0;
    uint64_t sizes_at = 0;
  };
  struct Storage {  // one entry of storage_data
    std::string_view key;
    bool has_offset = false;  // false: a byte item
    uint16_t rank = 0;        // of the offset
    uint32_t file = 0;        // position in `files`
    uint64_t offsets_at = 0;
    uint64_t offset = 0;         // bytes
    uint64_t length = 0;         // bytes
    uint32_t transforms = 0;     // position in `transforms`; 0: none
    uint32_t hint = UINT32_MAX;  // MetadataIndex.index: where in the tensor's list of chunks this one should be; may be wrong
    uint32_t value = 0;          // what its reader knows of the entry beyond this: a position in a list of the reader's
  };
  struct PathElement {
    std::string_view name;    // a dict key
    int64_t position = -1;    // >= 0: a list position, name is empty
    bool is_integer = false;  // `name` was an integer: known for torch.save files only, planner data holds text
  };
  struct Path {
    std::string_view key;
    uint64_t first = 0;  // in path_elements
    uint32_t count = 0;
  };

  struct McoreShape {  // Megatron-Core: the shape that a tensor had before it was flattened to be saved
    std::string_view key;
    uint32_t rank = 0;
    uint64_t dims_at = 0;  // rank numbers, each >= 0
  };

  std::vector<int64_t> ints;
  std::vector<Tensor> tensors;                            // in the file's order
  std::vector<Chunk> chunks;                              // by tensor, in the file's order
  std::vector<std::string_view> blobs;                    // keys of byte items, in the file's order
  std::vector<KeyRef> order;                              // tensors and blobs together, in the file's order
  std::vector<Storage> storage;                           // in the file's order
  std::vector<std::string_view> files;                    // distinct relative paths
  std::vector<std::vector<std::string_view>> transforms;  // distinct lists, in decode order; [0] is the empty one
  bool has_planner_data = false;                          // a dict of str -> tuple of str and int; false: None, absent, or something else
  std::string planner_note;                               // why existing planner_data is not usable; "" otherwise
  std::vector<Path> paths;                                // planner_data, in the file's order
  std::vector<PathElement> path_elements;

  // Metadata.mcore_data[key]["nd_reformulated_orig_global_shape"], where it is a tuple of sizes; in the file's order.
  std::vector<McoreShape> mcore_shapes;

  // Why no torch can load it although its content is clear: pickle_unloadable where pickle.load would stop, or metadata_field. May be
  // several.
  std::vector<Problem> unloadable;

  uint64_t trailing_bytes = 0;  // after the pickle's STOP, which torch ignores

  // Evidence of who wrote it and who can load it.
  uint32_t properties_fields = 0;         // maximum number of fields of a TensorProperties: 5, or 6 since torch 2.15; 0: no tensors
  bool old_module_names = false;          // torch.distributed._shard.checkpoint.*: torch 1.13
  bool old_properties_module = false;     // TensorProperties of _shard.sharded_tensor.metadata: torch <= 2.2
  bool has_storage_meta = false;          // a StorageMeta object: torch >= 2.4
  bool unframed = false;                  // protocol 4 without a FRAME, which CPython always writes: dcpctl's form
  bool has_storage_meta_modules = false;  // its field `modules`: torch >= 2.7
  bool has_version = false;               // torch >= 2.9
  bool python313_path = false;            // pathlib._local: unreadable on Python <= 3.12
  std::string_view version;
  std::vector<std::string> extra_attributes;  // unknown attributes of Metadata: "name: module.Class" or "name: dict"
  std::vector<ExtraAttribute> attributes;     // the same
  std::vector<std::string> unknown_globals;   // "module.name" of every global that is not DCP's own, sorted, distinct
};

// `place.path` names the file in errors, which are of the pickle_* and metadata_* families. Throws Error; never executes anything.
MetadataContent read_dcp_metadata(Bytes pickle, const Place& place, const Limits& limits);

// Copies each text once and lets the content view the copies, so that the pickle, mostly not names, can be freed.
std::deque<std::string> hold_text(MetadataContent& content);

// The keys of a `.metadata`, without the rest.

// Keys are not checked, and duplicates are kept. nullopt: storage_data does not follow them, as it does in torch's order.
std::optional<std::vector<std::string>> read_dcp_keys(Bytes pickle, const Place& place, const Limits& limits);

}  // namespace dcp
