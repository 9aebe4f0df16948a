// One byte item (an object that is not a tensor), or a tensor item that is not plain: its pickle, and where the storages that the pickle
// names lie. Neither is interpreted here.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/limits.h"
#include "base/problem.h"
#include "format/item_archive.h"
#include "format/torch_item.h"

namespace dcp {

struct BlobItem {
  struct Storage {
    std::string key;       // of the record data/KEY
    uint64_t payload = 0;  // position in the item
    uint64_t bytes = 0;
    uint64_t packed = 0;  // bytes in the item if it is deflated, else 0
    uint32_t crc = 0;
    bool has_crc = false;  // false: the writer computed none
  };
  std::vector<std::byte> pickle;  // data.pkl, its CRC checked
  uint64_t packed_pickle = 0;     // bytes that it takes in the item
  Place pickle_place;             // of its first byte, for messages
  std::vector<Storage> storages;  // in the order of the archive
  bool big_endian = false;
};

// Storages by key, as views of the item.
using StoragesByKey = std::unordered_map<std::string_view, const BlobItem::Storage*>;
StoragesByKey by_key(const BlobItem& item);

// As open_item_archive, but throws blob_not_archive for bytes that are not a zip at all (written by the user's own planner).
ItemArchive open_blob_archive(ItemSource& item, const Place& place, const Limits& limits);
// Throws blob_not_archive as above, crc_mismatch for the pickle, and the zip_* and item_* errors.
BlobItem read_blob_item(ItemSource& item, const Place& place, const Limits& limits);
// The same for an archive whose directory has been read; its pickle may have at most `pickle_bytes`.
BlobItem read_blob_item(ItemSource& item, const ItemArchive& archive, uint64_t pickle_bytes, const Limits& limits, const Place& place);

// What loading an object imports and reads, found in one run of its pickle that keeps no object.
struct ObjectPickle {
  std::vector<std::string> refused;    // globals that weights_only refuses, distinct, in order of appearance
  std::vector<TorchStorage> storages;  // of the persistent ids that are torch's
  std::optional<Problem> bad_tensor;   // of the first plain tensor that its storage cannot hold
  uint64_t trailing_bytes = 0;         // after its STOP
  std::optional<Problem> fault;        // why Python cannot load it: pickle_*; then the others are incomplete
  // The pickle was too large to be run (limits.memory_bytes) or nested too deep: the other members are incomplete, which is no sign of
  // damage.
  bool unseen = false;
};
ObjectPickle run_object_pickle(Bytes pickle, const Place& place, const Limits& limits);
// Checks that the pickle can be loaded, that its tensors lie within their storages, and that the records of these have the right length.
// Throws its fault, item_outside_storage, item_bad_shape, number_overflow, item_no_record, item_compressed, item_short_storage,
// item_long_storage.
void check_object(ItemSource& item, const ZipDirectory& directory, const ObjectPickle& object, const Place& place);

// For an item that is copied whole: all its records as `storages`, under their names, and no pickle. Bytes that are not an archive have no
// records. A pickle of at most limits.blob_bytes is examined, too: its storages must exist, as above.
BlobItem read_blob_records(ItemSource& item, const Place& place, const Limits& limits);

}  // namespace dcp
