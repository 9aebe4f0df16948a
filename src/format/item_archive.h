// The common part of tensor items and byte items: an archive of records with a version, a byte order and a pickle.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "base/limits.h"
#include "base/problem.h"

namespace dcp {

// Random access to the bytes of one item. `at` returns exactly `length` bytes, valid until the next call, or throws (short_file, io_read).
// Callers stay inside [0, size).
class ItemSource {
 public:
  virtual ~ItemSource() = default;
  virtual uint64_t size() const = 0;
  virtual Bytes at(uint64_t offset, uint64_t length) = 0;
};

struct ZipRecord {
  std::string name;     // without the root folder: "data.pkl", "data/0"
  uint64_t header = 0;  // offset of the local header in the item
  uint64_t packed = 0;  // bytes of the payload as stored in the item
  uint64_t size = 0;    // bytes of its content: the same, unless it is deflated
  uint32_t crc = 0;     // of its content, from the central directory
  uint16_t method = 0;  // kStored, kDeflated, or one that torch cannot read either
  uint64_t limit = 0;   // start of the next header, or of the directory: the record ends before it
  static constexpr uint16_t kStored = 0, kDeflated = 8;
  bool deflated() const { return method == kDeflated && packed > 0; }
};

// The directory of an archive, validated: records inside the slice, disjoint, names distinct even ignoring case, counts and sizes
// consistent.
struct ZipDirectory {
  std::string root;                // "archive"
  std::vector<ZipRecord> records;  // in order of header offset
  uint64_t end = 0;                // end of the end record; < size: trailing bytes
  const ZipRecord* find(std::string_view name) const;
};
ZipDirectory read_zip_directory(ItemSource& item, const Place& place, const Limits& limits);
// Position of the payload in the item, from the local header, which must agree with the directory on the name.
uint64_t payload_of(ItemSource& item, const ZipDirectory& directory, const ZipRecord& record, const Place& place);

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
