// The common part of tensor items and byte items: an archive of records with a version, a byte order and a pickle.
#pragma once

#include <cstddef>
#include <functional>
#include <string_view>
#include <vector>

#include "base/limits.h"
#include "base/problem.h"
#include "format/torch_item.h"

namespace dcp {

struct ItemArchive {
  ZipDirectory directory;
  bool big_endian = false;
};

// Reads the directory and checks what every torch since 1.13 checks: a `version` of 1 to 10, a known byte order (little-endian if absent).
ItemArchive open_item_archive(ItemSource& item, const Place& place, const Limits& limits);

// Throws item_compressed unless the record is stored or deflated.
void check_method(const ZipRecord& record, const Place& place);
// Throws item_no_record or item_compressed unless the record exists and can be read.
const ZipRecord& readable_record(const ZipDirectory& directory, std::string_view name, const Place& place);

// Streams the record's content block by block, inflated if it is deflated. Throws item_compressed, deflate_broken.
void read_record(ItemSource& item, const ZipRecord& record, uint64_t payload, const Place& place, const std::function<void(Bytes)>& sink);

// Reads the whole record and throws crc_mismatch if its CRC differs. Returns false if its writer computed none.
bool check_record_crc(ItemSource& item, const ZipRecord& record, uint64_t payload, const Place& place);

// data.pkl: at most `cap` bytes (over_limit), checked against its CRC (crc_mismatch) if the writer computed one.
struct ItemPickle {
  std::vector<std::byte> bytes;
  uint64_t packed = 0;  // bytes that it takes in the item
  Place place;          // of the first byte, for messages
};
ItemPickle read_item_pickle(ItemSource& item, const ZipDirectory& directory, uint64_t cap, const Limits& limits, const Place& place);

// Whether the writer computed a CRC. torch writes 0 for a non-empty record if it computed none.
inline bool has_crc(const ZipRecord& record) { return record.crc != 0 || record.size == 0; }

}  // namespace dcp
