// Reads the small parts of items that planning needs, in file order: where each payload starts, its stored dtype and strides, flags,
// CRC; and the pickles of byte items. One read serves the tail of an item and the head of the next.
#pragma once

#include <atomic>
#include <cstdint>
#include <limits>
#include <map>
#include <span>
#include <vector>

#include "base/workers.h"
#include "catalog/box.h"
#include "catalog/catalog.h"
#include "catalog/data_files.h"
#include "format/blob.h"
#include "format/torch_item.h"

namespace dcp {

// A byte item or an opaque tensor item: its pickle and the storages that the pickle names, at positions in the file.
struct ResolvedBlob {
  BlobItem item;
  std::vector<std::byte> decoded;  // for a transformed item: its decoded archive, which positions then refer to
};

struct Resolved {
  std::vector<ItemInfo> items;   // by ItemId; only the requested ones are resolved
  std::vector<int64_t> strides;  // [0] is unused
  std::map<ItemId, ResolvedBlob> blobs;
  std::map<ItemId, Item> deflated;  // tensor items whose storage is a deflated record of their archive: that record
  std::map<ItemId, ItemId> shared;  // byte items that are the same as another one; only that one is in `blobs` and `records`
  uint64_t bytes_read = 0;
  Views views;  // of a derived catalog only

  ItemId first_of(ItemId item) const {
    const auto found = shared.find(item);
    return found == shared.end() ? item : found->second;
  }
  const ResolvedBlob& blob(ItemId item) const { return blobs.at(first_of(item)); }

  // With Faults::kCollect:
  std::vector<Problem> findings;     // in any order
  std::vector<ItemRecord> records;   // whose CRC is left to a plan; in any order
  uint64_t records_checked = 0;      // others, whose CRC was compared
  uint64_t records_without_crc = 0;  // others
  uint64_t data_records = 0;         // of these two, those that hold data
  uint64_t data_bytes = 0;           // in them
};

// A checkpoint's catalog and the facts found in its items: the input of a plan. Both must outlive it.
struct SourceFacts {
  const Catalog& catalog;
  const Resolved& resolved;
};

// A source, ready to be read.
struct Source {
  const Catalog& catalog;
  const Resolved& resolved;
  DataFiles& files;

  operator SourceFacts() const { return {catalog, resolved}; }
};

// What a unit reads for an item: the item, or, if it is deflated, its storage alone.
inline const Item& source_of(const SourceFacts& source, ItemId item) {
  if (source.resolved.deflated.empty()) return source.catalog.items[item];
  const auto found = source.resolved.deflated.find(item);
  return found == source.resolved.deflated.end() ? source.catalog.items[item] : found->second;
}

// The axes along which a chunk lies in its record (those of its view, or its dims), and its first element there.
std::vector<ViewAxis> axes_of(const SourceFacts& source, const Tensor& tensor, uint32_t chunk, uint64_t& first);

// The use of byte items and opaque tensors: their pickles are used, their bytes are copied as a whole, or, with Faults::kCollect, only the
// imports of their pickles are found.
enum class BlobUse : uint8_t { kPickles, kWhole, kNames };

// The facts of a plain tensor item that begins at `base`, but for its strides; and whether these say it all, as its elements lie in order.
ItemInfo info_of(const TensorItem& t, uint64_t base);
bool is_plain(const TensorItem& t);

struct ResolveOptions {
  unsigned workers = 1;
  // kCollect: a fault of an item becomes a finding, items outside their files are skipped, and empty chunks and other ranks' copies are
  // examined too. CRCs of small records are checked, all other records are listed. Of byte items only decoded ones are kept.
  Faults faults = Faults::kThrow;
  BlobUse blobs = BlobUse::kPickles;
  Limits limits;
  uint64_t memory_bytes = std::numeric_limits<uint64_t>::max();  // total for byte items; memory_cap is thrown before more are read
  uint64_t memory_cap = std::numeric_limits<uint64_t>::max();    // the whole cap, for the message
  uint64_t small_item = 64 << 10;                                // bytes: items up to this size are read as a whole
  const std::vector<bool>* only_files = nullptr;                 // items of other files stay unresolved: other ranks resolve them
  // With kCollect: records of items that are read as a whole are summed at once, and listed only if they are wrong; the bytes of these items
  // are counted here.
  std::atomic<uint64_t>* summed = nullptr;
  bool predicts = false;  // the heads of items like others are left to DataFiles::predicted; not with kCollect
};

// Resolves the items of these tensors (only chunks with elements) and byte items. Every item must be inside its file (check_whole,
// check_item), unless faults are collected. Throws what the readers in src/format throw, chunk_shape_differs, dtype_unknown,
// transform_unknown.
Resolved resolve(DataFiles& files, std::span<const TensorId> tensors, std::span<const BlobId> blobs, const ResolveOptions& options,
                 const StopFlag& stop);

}  // namespace dcp
