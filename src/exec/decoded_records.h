// Random access to records of transformed items, for a source that is read in the order of another one's units. Reading in ascending order
// decodes a record once; going back starts over.
#pragma once

#include <algorithm>
#include <atomic>
#include <deque>
#include <memory>
#include <vector>

#include "catalog/data_files.h"
#include "items/item_source.h"
#include "items/resolve.h"

namespace dcp {

// Owned by one worker.
class DecodedRecords {
 public:
  // `bytes_read` counts bytes read from files.
  DecodedRecords(const Source& source, std::atomic<uint64_t>& bytes_read) : source_(source), bytes_read_(bytes_read) {}

  // Fills `into` beginning at position `at` of the record. Throws what decoding throws, zstd_truncated.
  void read(ItemId item, uint64_t at, MutableBytes into);

  // The maximum memory that it holds for boxes and records of that size.
  static uint64_t memory_bytes(uint64_t box_bytes, uint64_t record_bytes) {
    return kMax * (std::min(2 * kKept + box_bytes, record_bytes) + kDecoder);
  }

 private:
  static constexpr size_t kMax = 4;              // records open at once: as many as a box of a plain layout crosses, and the next ones
  static constexpr uint64_t kKept = 4 << 20;     // bytes kept behind the last position, so that spans need not be strictly ascending
  static constexpr uint64_t kDecoder = 9 << 20;  // memory for decoding: zstd's window of 8 MiB, and blocks
  struct Open {
    ItemId record = 0;
    Place place;
    std::unique_ptr<ItemDecoder> decoder;
    uint64_t begin = 0;  // of `held` in the record
    std::vector<std::byte> held;
    uint64_t end() const { return begin + held.size(); }
  };
  Open& open(ItemId item, uint64_t at);
  Open begin(ItemId item, ItemId record);
  void decode(Open& open, uint64_t bytes, uint64_t needed_from);

  const Source source_;
  std::atomic<uint64_t>& bytes_read_;
  std::deque<Open> open_;  // most recently used first
};

}  // namespace dcp
