#include "format/blob.h"

#include <string_view>
#include <utility>

#include "format/item_archive.h"

namespace dcp {
namespace {

constexpr std::string_view kFolder = "data/";

}  // namespace

StoragesByKey by_key(const BlobItem& item) {
  StoragesByKey found;
  for (const BlobItem::Storage& s : item.storages) found.emplace(s.key, &s);
  return found;
}

ItemArchive open_blob_archive(ItemSource& item, const Place& place, const Limits& limits) {
  try {
    return open_item_archive(item, place, limits);
  } catch (const Error& e) {
    if (e.problem().id == ProblemId::zip_no_end) fail(ProblemId::blob_not_archive, place);
    throw;
  }
}

BlobItem read_blob_item(ItemSource& item, const Place& place, const Limits& limits) {
  return read_blob_item(item, open_blob_archive(item, place, limits), limits.blob_bytes, limits, place);
}

BlobItem read_blob_item(ItemSource& item, const ItemArchive& archive, uint64_t pickle_bytes, const Limits& limits, const Place& place) {
  ItemPickle pickle = read_item_pickle(item, archive.directory, pickle_bytes, limits, place);
  BlobItem blob{.pickle = std::move(pickle.bytes), .packed_pickle = pickle.packed, .pickle_place = std::move(pickle.place), .storages = {}};
  blob.big_endian = archive.big_endian;
  for (const ZipRecord& record : archive.directory.records) {
    // `data/` itself is the entry of a folder, which some zip tools write.
    if (!record.name.starts_with(kFolder) || record.name.ends_with('/')) continue;
    check_method(record, place);
    BlobItem::Storage& storage = blob.storages.emplace_back();
    storage.key = record.name.substr(kFolder.size());
    storage.payload = payload_of(item, archive.directory, record, place);
    storage.bytes = record.size;
    storage.packed = record.deflated() ? record.packed : 0;
    storage.crc = record.crc;
    storage.has_crc = has_crc(record);
  }
  return blob;
}

BlobItem read_blob_records(ItemSource& item, const Place& place, const Limits& limits) {
  BlobItem blob{.pickle = {}, .packed_pickle = 0, .pickle_place = place, .storages = {}};
  ZipDirectory directory;
  try {
    directory = read_zip_directory(item, place, limits);
  } catch (const Error& e) {
    if (e.problem().id == ProblemId::zip_no_end) return blob;
    throw;
  }
  for (const ZipRecord& record : directory.records) {
    const uint64_t payload = payload_of(item, directory, record, place);
    // The CRC of a deflated record is of other bytes than those that are copied: it is compared here.
    if (record.deflated()) check_record_crc(item, record, payload, place);
    blob.storages.push_back({.key = record.name,
                             .payload = payload,
                             .bytes = record.packed,
                             .crc = record.crc,
                             .has_crc = has_crc(record) && record.method == ZipRecord::kStored});
  }
  return blob;
}

}  // namespace dcp
