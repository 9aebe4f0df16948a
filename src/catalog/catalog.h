// What a checkpoint is: tensors, their chunks, where each chunk's item lies, byte items, the nested path of each key. Its structure is the
// same for every producer, version and kind. Opening builds it and returns a FrozenCatalog.
//
// Structure of arrays with ids instead of pointers: about 90 bytes a 2-D chunk (56 here, 32 in ItemInfo), so 10^6 chunks are 10^8
// bytes. Item numbers: chunk c of the catalog has item c; blob b has item `chunk count + b`.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/problem.h"
#include "catalog/box.h"
#include "catalog/kind.h"
#include "format/dcp_metadata.h"
#include "format/dtype.h"

namespace dcp {

using StringId = uint32_t;
using TensorId = uint32_t;
using BlobId = uint32_t;
using ItemId = uint32_t;
inline constexpr uint32_t kNone = UINT32_MAX;

// Interned text. Views stay valid for the life of the table.
class Strings {
 public:
  Strings() = default;
  Strings(const Strings& other);
  Strings(Strings&&) = default;
  Strings& operator=(Strings&&) = default;

  StringId intern(std::string_view text);
  std::optional<StringId> find(std::string_view text) const;
  std::string_view operator[](StringId id) const { return by_id_[id]; }
  size_t size() const { return by_id_.size(); }
  uint64_t bytes() const { return held_ + by_id_.size() * 64; }

 private:
  std::string_view hold(std::string_view text);
  std::deque<std::string> blocks_;
  std::vector<std::string_view> by_id_;
  std::unordered_map<std::string_view, StringId> ids_;
  uint64_t held_ = 0;
};

// One component of a key's nested path: a dict key or a list position.
class PathElement {
 public:
  static PathElement name(StringId id) { return PathElement(id); }
  static PathElement integer_name(StringId id) { return PathElement(id | kInteger); }  // the dict key is an integer, which the name spells
  static PathElement position(uint64_t p) { return PathElement(p | kPosition); }
  bool is_position() const { return (raw_ & kPosition) != 0; }
  bool is_integer() const { return !is_position() && (raw_ & kInteger) != 0; }
  StringId name_id() const { return static_cast<StringId>(raw_); }
  uint64_t list_position() const { return raw_ & ~kPosition; }
  bool operator==(const PathElement&) const = default;

 private:
  explicit PathElement(uint64_t raw) : raw_(raw) {}
  static constexpr uint64_t kPosition = uint64_t{1} << 63, kInteger = uint64_t{1} << 62;
  uint64_t raw_;
};

struct PathRange {
  uint32_t first = 0;  // in path_elements
  uint32_t count = 0;
};

struct Tensor {
  StringId key = 0;
  StringId dtype_name = 0;  // as the metadata spells it
  PathRange path;           // count 0: no planner data, the key is the whole path
  DType dtype{};            // of the metadata; meaningless if !dtype_known
  bool dtype_known = true;
  bool strided = true;  // false: sparse or another layout, which has no box of bytes
  bool requires_grad = false;
  uint8_t rank = 0;
  uint64_t dims_at = 0;      // in numbers: rank sizes
  uint64_t boxes_at = 0;     // in numbers: for each chunk rank offsets, then rank sizes
  uint32_t first_chunk = 0;  // chunks sorted by offsets (lexicographic); at equal offsets, those with elements first
  uint32_t chunk_count = 0;
};

struct Blob {
  StringId key = 0;
  PathRange path;
};

// In a raw file (DataFile) an item is the tensor's bytes and nothing else; elsewhere a torch.save archive.
struct Item {
  uint64_t offset = 0;      // bytes in the file
  uint64_t length = 0;      // bytes, as stored (after transforms)
  uint32_t file = kNone;    // in files; kNone: the metadata names no item for this chunk
  uint32_t transforms = 0;  // in transforms; 0: none
  // The item is a single deflated record of an archive. Positions in the decoded bytes count from its `offset`.
  static constexpr uint32_t kDeflated = UINT32_MAX;
  static Item deflated(uint64_t payload, uint64_t packed, uint32_t file) { return {payload, packed, file, kDeflated}; }
  bool operator==(const Item&) const = default;
};

// Facts of one tensor item, 40 bytes. Positions are in the file, or, for a transformed item, in its decoded stream.
struct ItemInfo {
  uint64_t record = 0;        // first byte of the storage's record
  uint64_t record_bytes = 0;  // what the CRC covers
  uint64_t strides_at = 0;    // in Resolved::strides: storage offset, then rank strides, in elements; 0: row-major from the first byte
  uint32_t crc = 0;
  DType dtype{};  // as stored
  bool resolved = false;
  bool opaque = false;  // not a plain strided tensor: a BlobItem in Resolved::blobs
  bool has_crc = false;
  bool swap = false;  // stored big-endian
  bool conj = false;
  bool neg = false;
  bool operator==(const ItemInfo&) const = default;
};

// An item that several ranks wrote: `item` is used, `other` must be equal (rank_local.h).
struct Duplicate {
  ItemId item = 0;
  StringId key = 0;
  Item other;
};

// The shape that Megatron-Core records for a tensor that it saved in another shape (mcore.h).
struct McoreShape {
  TensorId tensor = 0;
  uint8_t rank = 0;
  uint64_t dims_at = 0;  // in numbers
};

// A record of an item's archive that holds data: a storage, or a large pickle. Positions are in the file, or, for a transformed item, in
// its decoded stream.
struct ItemRecord {
  uint64_t offset = 0;
  uint64_t bytes = 0;
  uint64_t packed = 0;  // bytes in the file of a deflated record, else 0
  ItemId item = 0;
  uint32_t duplicate = kNone;  // in duplicates: the record belongs to that copy of the item
  uint32_t crc = 0;
  bool has_crc = false;
  bool is_data = false;  // a storage
  bool operator==(const ItemRecord&) const = default;
};

struct DataFile {
  StringId name = 0;                     // relative to its folder
  StringId folder = kNone;               // kNone: the catalog's; of a derived catalog: another checkpoint's, "" if `name` is a path
  std::optional<uint64_t> bytes;         // nullopt: the file is missing, cannot be read, or was not examined (look_at_files)
  std::shared_ptr<const Problem> fault;  // why an existing file cannot be read: then `bytes` is nullopt
  bool raw = false;                      // a safetensors file: items are row-major payloads of the metadata's dtype, without a CRC;
                                         // or a torch.save file: items are its records (Catalog::torch)

  bool reaches(const Item& i) const { return bytes && i.offset <= *bytes && i.length <= *bytes - i.offset; }  // to the item's end
};

// Who wrote the checkpoint and who can load it, as far as the metadata shows.
struct Provenance {
  std::string written_by;             // of DCP, releases of torch: "2.4 - 2.6", ">=2.15"; else "accelerate, per-rank files"
  bool by_dcpctl = false;             // written_by is then ""
  uint32_t ranks = 0;                 // that saved it, where that is recorded; 0: only the chunks suggest it
  std::string loads_in;               // ">=2.15", ">=2.4", "1.13", "none"
  std::vector<std::string> why;       // what rules out other versions
  std::string format_version;         // Metadata.version, or ""
  std::vector<std::string> packages;  // that Python must be able to import to unpickle it, beside torch
  std::vector<std::string> extra_attributes;
  std::vector<ExtraAttribute> attributes;  // the same, with their values
  std::vector<std::string> unknown_globals;
};

struct TorchFiles;

struct Catalog {
  CheckpointKind kind{};
  std::string path;          // as the user typed it
  std::string folder;        // where data files lie
  bool single_file = false;  // `path` itself is the only data file: opened as the user named it, links followed
  Strings strings;
  std::vector<int64_t> numbers;  // sizes, offsets
  std::vector<PathElement> path_elements;
  std::vector<Tensor> tensors;  // in the metadata's order
  std::vector<Blob> blobs;      // in the metadata's order
  std::vector<KeyRef> order;    // all keys in the metadata's order
  std::vector<Item> items;      // chunks, then blobs
  uint32_t chunk_total = 0;
  std::vector<DataFile> files;                       // sorted by name
  std::vector<std::vector<std::string>> transforms;  // [0]: none
  bool has_planner_data = false;
  Provenance provenance;
  std::vector<McoreShape> mcore_shapes;     // sorted by tensor
  std::shared_ptr<const TorchFiles> torch;  // of torch.save files: all facts about their items (torch_files.h)
  std::vector<Duplicate> duplicates;        // rank-local checkpoints only
  std::vector<StringId> saved_keys;         // of a derived catalog, by item: the key under which its tensor was saved
  std::vector<StringId> lacking;            // keys that an index names and no file holds; none is a tensor here
  std::vector<ItemId> named_twice;          // items for which storage_data has two entries, sorted; the first entry is in items

  const KindTraits& traits() const { return traits_of(kind); }
  // Whether `path` is the metadata itself, not its folder.
  bool is_metadata_given() const { return traits().one_metadata && path != folder; }
  // Only the rank that has opened torch.save files knows their items.
  bool knows_items() const { return !traits().in_torch_files || torch != nullptr; }
  Dims dims(const Tensor& t) const { return {numbers.data() + t.dims_at, t.rank}; }
  std::vector<int64_t> shape(const Tensor& t) const { return {dims(t).begin(), dims(t).end()}; }
  BoxView box(const Tensor& t, uint32_t chunk_in_tensor) const {
    const int64_t* p = numbers.data() + t.boxes_at + uint64_t{chunk_in_tensor} * 2 * t.rank;
    return {{p, t.rank}, {p + t.rank, t.rank}};
  }
  ItemId item_of(const Tensor& t, uint32_t chunk_in_tensor) const { return t.first_chunk + chunk_in_tensor; }
  ItemId item_of(BlobId b) const { return chunk_total + b; }
  // What is read to get the record: its item or, if it is deflated, the record alone.
  Item item_of(const ItemRecord& r) const {
    const Item& item = r.duplicate == kNone ? items[r.item] : duplicates[r.duplicate].other;
    return r.packed == 0 ? item : Item::deflated(r.offset, r.packed, item.file);
  }
  // Keys are the first strings that a catalog interns; other text follows them.
  bool has_key(std::string_view text) const { return strings.find(text).value_or(kNone) < tensors.size() + blobs.size(); }
  std::string_view key(const Tensor& t) const { return strings[t.key]; }
  std::string_view key(const Blob& b) const { return strings[b.key]; }
  std::string_view key(KeyRef ref) const { return ref.is_blob() ? key(blobs[ref.blob()]) : key(tensors[ref.tensor()]); }
  const Tensor& tensor_of_chunk(ItemId item) const;
  std::string_view key_of_item(ItemId item) const;  // as it was saved
  std::string_view file_name(uint32_t file) const { return strings[files[file].name]; }
  std::string file_path(uint32_t file) const;
  uint64_t elements(const Tensor& t) const { return volume(dims(t)); }
  uint64_t tensor_bytes(const Tensor& t) const { return t.dtype_known ? elements(t) * bytes_of(t.dtype) : 0; }
  Place place_of(ItemId item, std::string_view tensor) const;
};

// A catalog, and the findings made while opening it.
struct OpenedCatalog {
  Catalog catalog;
  std::vector<Problem> findings;    // entries without a chunk, files that an index names but that do not exist, and so on
  std::vector<Problem> unloadable;  // why no torch can load the metadata: damage for `verify`, ignored by commands that rescue its data
};

// A catalog as returned by opening, with the facts of its data files (look_at_files). It never changes any more.
using FrozenCatalog = std::shared_ptr<const OpenedCatalog>;

// Makes a catalog over the files of another one.

// A catalog without keys over the same files, with the same numbers: files opened for one serve the other too.
Catalog catalog_over_files_of(const Catalog& from);

}  // namespace dcp
