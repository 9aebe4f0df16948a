// The plan: output files with their final sizes, where every payload goes, and the units of work. A value: a pure function of catalog,
// resolved facts and options that refers to nothing outside itself. Nothing is read to make it, a dry run prints it, and what is printed
// is what is run. Ranks compare their plans by a digest of all members.
//
// Size O(tensors + chunks). Pieces (source chunk x unit x region) are never stored: exec computes a unit's runs when it gets to it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/members.h"
#include "catalog/catalog.h"
#include "format/torch_archive.h"
#include "items/resolve.h"

namespace dcp {

DCP_MEMBERS(ItemRecord, offset, bytes, packed, item, duplicate, crc, has_crc, is_data);

// One output payload: a box of a tensor, row-major, little-endian, in `dtype`. Bare, or inside an item of its own: a torch archive whose
// bytes, except the payload and its CRC, follow from dtype and sizes (format/torch_archive.h), so only its place is stored.
struct Region {
  uint64_t file_offset = 0;  // of the first element, in bytes
  uint64_t box_at = 0;       // in Plan::numbers: rank offsets, then rank sizes
  uint32_t tensor = 0;       // in Plan::tensors
  uint32_t file = 0;         // in Plan::files
  uint16_t head = 0;         // bytes of the item before the payload; 0: there is no item
  uint16_t tail = 0;         // bytes of the item after the payload
  DType dtype{};
  uint8_t rank = 0;  // dims of the box
  bool is_item() const { return head > 0; }
  bool operator==(const Region&) const = default;
};
DCP_MEMBERS(Region, file_offset, box_at, tensor, file, head, tail, dtype, rank);

// Bytes known in advance: headers, pickles, an index.
struct Literal {
  uint32_t file = 0;
  uint64_t file_offset = 0;
  std::string bytes;
  bool operator==(const Literal&) const = default;
};
DCP_MEMBERS(Literal, file, file_offset, bytes);

// Bytes copied unchanged: storages of byte items and of opaque tensors, or whole items of these.
struct CopyRange {
  ItemId item = 0;
  uint64_t packed = 0;        // bytes of a deflated record in the file, which `bytes` are decoded from by one unit; else 0
  bool from_decoded = false;  // source_offset is in Resolved::blobs[item].decoded, else in the item's file
  uint64_t source_offset = 0;
  uint64_t bytes = 0;
  uint32_t file = 0;
  uint64_t file_offset = 0;
  uint32_t first_check = 0;  // its records: copy_checks[first_check, first_check + check_count)
  uint32_t check_count = 0;
  Item deflated(const Catalog& catalog) const { return Item::deflated(source_offset, packed, catalog.items[item].file); }
  bool operator==(const CopyRange&) const = default;
};
DCP_MEMBERS(CopyRange, item, packed, from_decoded, source_offset, bytes, file, file_offset, first_check, check_count);

// A source record that lies in a CopyRange: its bytes must have this CRC.
struct CopyCheck {
  uint64_t at = 0;  // in the range
  uint64_t bytes = 0;
  uint32_t crc = 0;
  bool has_crc = true;  // false: the writer computed none
  bool operator==(const CopyCheck&) const = default;
};
DCP_MEMBERS(CopyCheck, at, bytes, crc, has_crc);

// How the CRC of a chunk's source record is checked.
enum class CrcCheck : uint8_t {
  kFromUnits,     // the units read each byte of the record exactly once
  kSeparatePass,  // in a separate pass over the record: it has strides, or is larger than its tensor
  kUnchecked,     // the writer computed none, or checking is switched off
};

// A selected tensor. Its regions are regions[first_region, first_region + region_count), all of one dtype.
struct PlanTensor {
  TensorId id = 0;
  uint32_t first_region = 0;
  uint32_t region_count = 0;
  bool operator==(const PlanTensor&) const = default;
};
DCP_MEMBERS(PlanTensor, id, first_region, region_count);

// Units are numbered through the groups; unit `first_unit + k` is the k-th of its group.
struct Group {
  enum class Kind : uint8_t {
    kGrid,     // one tensor cut into boxes: along dim d every steps[d] elements; unit k in row-major order of the grid
    kBatch,    // `count` whole small tensors from `first` on, one unit
    kStream,   // one tensor with transformed chunks: unit k decodes the k-th chunk from front to back and scatters it
    kScatter,  // the chunks scattered[first, first + count), views of one transformed record (or zeros): one unit, which decodes it
    // from front to back, holds so much of it at once as numbers[steps_at] says, in bytes, and scatters that in boxes of numbers[steps_at + 1]
    kCopy,   // CopyRange `first`, unit k its k-th kPassBytes; of a deflated one: one unit
    kBoxes,  // boxes[first, first + count), whose bytes lie close to each other in a file: one unit
    kCheck,  // `count` records from `first` on, read only for their CRC. In a file: disjoint and close to each other, unit k the k-th
             // kPassBytes from the first one on. Of a transformed item: one unit, which decodes it from front to back
  };
  Kind kind = Kind::kGrid;
  uint32_t first = 0;     // PlanTensor, CopyRange, record, box or chunk
  uint32_t count = 0;     // kBatch, kScatter, kBoxes, kCheck
  uint64_t steps_at = 0;  // in Plan::numbers; kGrid: rank steps
  uint64_t first_unit = 0;
  uint64_t units = 0;
  bool operator==(const Group&) const = default;
};
DCP_MEMBERS(Group, kind, first, count, steps_at, first_unit, units);
inline constexpr uint64_t kPassBytes = 4 << 20;
inline constexpr uint64_t kJoinGap = 4 << 10;       // ranges of a kBoxes unit this close are read together: a page, which is read anyway
inline constexpr uint64_t kCheckBytes = 256 << 10;  // one read of kCheck, where reads are cheap: small enough to be summed from the cache
inline constexpr uint64_t kViewPart = 512 << 10;    // one read of a derived tensor's view, for the same reason

// The source of the CRC of a record in an output archive: the record's payload.
struct ArchivePayload {
  enum class Kind : uint8_t { kLiteral, kRegion, kCopy };
  Kind kind = Kind::kLiteral;
  uint32_t index = 0;
  bool operator==(const ArchivePayload&) const = default;
};
DCP_MEMBERS(ArchivePayload, kind, index);

// Content too large to hold: generated from the plan itself once everything else is written, from front to back and the same each time.
enum class Generated : uint8_t { kNo, kDcpMetadata };

struct OutputFile {
  std::string name;  // inside the output folder; "" where the output is one file
  uint64_t bytes = 0;
  Generated generated = Generated::kNo;       // if set, the file holds nothing else and is written last
  std::optional<TorchArchiveLayout> archive;  // if present, everything but payloads is written last, when CRCs are known
  std::vector<ArchivePayload> payloads;       // by record of the archive
  bool operator==(const OutputFile&) const = default;
};
DCP_MEMBERS(OutputFile, name, bytes, generated, archive, payloads);

// A fact about a key, for the report.
struct KeyNote {
  std::string key;
  std::string text;
  bool operator==(const KeyNote&) const = default;
};
DCP_MEMBERS(KeyNote, key, text);

// Python objects that each rank wrote under a name of its own, such as dataloader.dp_rank_3 (dcp_layout.h).
struct RankBound {
  std::string stem;             // the keys up to the number: "dataloader.dp_rank_"
  std::string exclude;          // a glob of those and what stands beside them: "dataloader.*"
  std::vector<uint64_t> ranks;  // ascending
  bool operator==(const RankBound&) const = default;
};
DCP_MEMBERS(RankBound, stem, exclude, ranks);

// List positions that no key fills. None is written there, as by torch's format_utils. They held an empty dict, which dcp.save drops, or a
// key that was left out.
struct ListHoles {
  uint64_t count = 0;
  std::string example;  // its path
  bool operator==(const ListHoles&) const = default;
};
DCP_MEMBERS(ListHoles, count, example);

// What users of a DCP folder should know about it.
struct DcpNotes {
  uint32_t world_size = 0;
  unsigned for_torch = 0;                         // the oldest release that it is written for: major * 100 + minor
  std::vector<KeyNote> raised_by;                 // tensors whose dtype needs it, if the default is older: one per dtype
  uint64_t containers = 0;                        // dicts and lists of plain values written as one object each, for torch before 2.4
  std::vector<KeyNote> attributes_left_out;       // attributes of the source's metadata
  std::vector<KeyNote> default_layout;            // tensors missing from the checkpoint whose layout is reused; they use the default layout
  std::vector<KeyNote> kept_as_is;                // tensors that are not plain: their chunks are copied, whatever layout was asked for
  std::vector<std::string> unmatched_placements;  // globs that match no tensor
  std::vector<KeyNote> replicated;                // tensors without the dim that the glob in `text` splits: replicated instead
  std::vector<RankBound> rank_bound;
  bool operator==(const DcpNotes&) const = default;
};
DCP_MEMBERS(DcpNotes, world_size, for_torch, raised_by, containers, attributes_left_out, default_layout, kept_as_is, unmatched_placements,
            replicated, rank_bound);

struct OutputItem {
  std::string name;
  bool is_safetensors = false;
  bool of_ranks = false;  // each rank has one of its own
  uint64_t tensors = 0, objects = 0;
  std::string object;  // the first of them
  bool operator==(const OutputItem&) const = default;
};
DCP_MEMBERS(OutputItem, name, is_safetensors, of_ranks, tensors, objects, object);

// What users of a folder of torch_checkpointing should know about it.
struct ItemNotes {
  uint32_t world_size = 0;
  std::string device_type;                        // of DTensors; "": tensors are plain
  std::string model_item;                         // that a model at the top level becomes; "": there is none
  std::vector<OutputItem> items;                  // sorted by name
  std::vector<std::string> unmatched_placements;  // as DcpNotes has them
  std::vector<KeyNote> replicated;
  std::vector<RankBound> rank_bound;
  bool operator==(const ItemNotes&) const = default;
};
DCP_MEMBERS(ItemNotes, world_size, device_type, model_item, items, unmatched_placements, replicated, rank_bound);

// Where an item lies in the output.
struct Slice {
  uint32_t file = 0;
  uint64_t offset = 0, length = 0;  // bytes
  bool operator==(const Slice&) const = default;
};
DCP_MEMBERS(Slice, file, offset, length);

// A key of `.metadata`.
struct DcpKey {
  std::string name;
  KeyRef ref;               // in the source
  uint32_t at = 0;          // its PlanTensor, or its first slice
  bool copied = false;      // it has slices: a byte item, or a tensor whose items are copied
  uint32_t first_part = 0;  // of its path, in DcpKeys::parts
  uint32_t part_count = 0;
  bool is_blob() const { return ref.is_blob(); }
  TensorId tensor() const { return ref.tensor(); }
  bool operator==(const DcpKey&) const = default;
};
DCP_MEMBERS(DcpKey, name, ref, at, copied, first_part, part_count);

struct DcpPathPart {
  std::string name;
  int64_t position = -1;  // >= 0: of a list
  bool operator==(const DcpPathPart&) const = default;
};
DCP_MEMBERS(DcpPathPart, name, position);

// An attribute of the source's metadata that torch does not know and that is kept. Its values are opcodes (format/dcp_metadata_writer.h).
struct DcpAttribute {
  std::string name;
  std::string value;
  std::vector<std::pair<std::string, std::string>> entries;
  bool is_dict = false;
  bool operator==(const DcpAttribute&) const = default;
};
DCP_MEMBERS(DcpAttribute, name, value, entries, is_dict);

// What the `.metadata` of a DCP folder says beyond places and shapes (plan_metadata.h).
struct DcpKeys {
  std::vector<DcpKey> keys;  // in its order
  bool has_paths = false;
  std::vector<DcpPathPart> parts;
  std::vector<Slice> slices;
  std::vector<DcpAttribute> attributes;
  bool operator==(const DcpKeys&) const = default;
};
DCP_MEMBERS(DcpKeys, keys, has_paths, parts, slices, attributes);

// A chunk that a kScatter unit fills from its decoded record.
struct Scattered {
  uint32_t tensor = 0;  // in Plan::tensors
  uint32_t chunk = 0;   // of it
  bool operator==(const Scattered&) const = default;
};
DCP_MEMBERS(Scattered, tensor, chunk);

// A box of a tensor that a kBoxes unit reads.
struct PlanBox {
  uint32_t tensor = 0;  // in Plan::tensors
  uint64_t box_at = 0;  // in Plan::numbers: rank offsets, then rank sizes
  bool operator==(const PlanBox&) const = default;
};
DCP_MEMBERS(PlanBox, tensor, box_at);

struct Plan {
  bool mcore_shapes = false;  // tensors have the shapes of Megatron's mcore_data
  bool folder = false;        // the output is a folder of `files`; the last one commits it
  std::vector<OutputFile> files;
  std::vector<PlanTensor> tensors;
  std::vector<Region> regions;
  std::vector<Literal> literals;
  std::vector<CopyRange> copies;
  std::vector<CopyCheck> copy_checks;
  std::vector<ItemRecord> records;  // checked by separate passes, in file order
  std::vector<int64_t> numbers;     // boxes of regions, steps of groups
  std::vector<Scattered> scattered;
  std::vector<PlanBox> boxes;
  std::vector<Group> groups;
  std::vector<CrcCheck> checks;   // by ItemId; meaningful for resolved tensor items
  std::vector<ItemId> summed_at;  // by ItemId, of a derived catalog: the item that holds the sum of its record; empty: each item its own
  uint64_t units = 0;
  uint64_t check_bytes = kCheckBytes;  // of one read of kCheck

  uint64_t bytes_to_read = 0;      // from data files, by units
  uint64_t bytes_to_write = 0;     // sizes of all files
  uint64_t tensor_bytes = 0;       // of the outputs' payloads
  uint64_t largest_tensor = 0;     // bytes
  uint64_t worker_bytes = 0;       // maximum buffers of one worker
  uint64_t unchecked_records = 0;  // records whose writer computed no CRC
  uint64_t elements = 0;

  std::vector<std::string> unsafe_globals;  // globals that torch.load(weights_only=True) will refuse, distinct, sorted
  std::vector<KeyNote> unsafe;              // byte items that hold them
  std::vector<KeyNote> converted;           // stored dtype differs from the metadata's
  std::vector<KeyNote> left_out;            // keys that the output format or an option leaves out
  uint64_t left_out_blobs = 0;
  ListHoles list_holes;
  std::optional<DcpNotes> dcp;     // of a DCP folder
  std::optional<DcpKeys> keys;     // of a DCP folder
  std::optional<ItemNotes> items;  // of a folder of torch_checkpointing

  BoxView box(const Region& r) const {
    const int64_t* at = numbers.data() + r.box_at;
    return {{at, r.rank}, {at + r.rank, r.rank}};
  }
  BoxView box(const PlanBox& b, size_t rank) const {
    const int64_t* at = numbers.data() + b.box_at;
    return {{at, rank}, {at + rank, rank}};
  }
  uint64_t payload_bytes(const Region& r) const { return volume(box(r).sizes) * bytes_of(r.dtype); }
  ItemId sum_of(ItemId item) const { return summed_at.empty() ? item : summed_at[item]; }
  // Whether it is the part of a record that units do not see while they sum the others. It is added to the same sum.
  bool is_rest(const ItemRecord& r) const { return !summed_at.empty() && r.is_data && checks[r.item] == CrcCheck::kFromUnits; }
  // The group that unit `ordinal` belongs to.
  const Group& group_of(uint64_t ordinal) const;
  bool operator==(const Plan&) const = default;
};
DCP_MEMBERS(Plan, mcore_shapes, folder, files, tensors, regions, literals, copies, copy_checks, records, numbers, scattered, boxes, groups,
            checks, summed_at, units, check_bytes, bytes_to_read, bytes_to_write, tensor_bytes, largest_tensor, worker_bytes,
            unchecked_records, elements, unsafe_globals, unsafe, converted, left_out, left_out_blobs, list_holes, dcp, keys, items);

// The shape that a tensor has in the output. Throws mcore_shape.
Dims output_shape(const Plan& plan, const Catalog& catalog, TensorId tensor);

// The box of unit `k` of a kGrid group.
class UnitBox {
 public:
  UnitBox(const Plan& plan, const Catalog& catalog, const Group& group, uint64_t k);
  BoxView view() const { return {{offsets_.data(), rank_}, {sizes_.data(), rank_}}; }

 private:
  Numbers offsets_, sizes_;
  size_t rank_;
};

// One number for a plan, computed from all its members, to compare the plans of different ranks.

// It is the same for equal plans within one build.
uint64_t digest_of(const Plan& plan);

}  // namespace dcp
