// Records of transformed items, read at any place: for a source that follows the units of another one. What is read in ascending order is
// decoded once; going back begins anew.
#pragma once

#include <algorithm>
#include <atomic>
#include <deque>
#include <memory>
#include <vector>

#include "catalog/data_files.h"
#include "catalog/item_source.h"
#include "catalog/resolve.h"

namespace dcp {

// Of one worker.
class DecodedRecords {
 public:
  // `bytes_read` counts what is read of the files.
  DecodedRecords(const Source& source, std::atomic<uint64_t>& bytes_read) : source_(source), bytes_read_(bytes_read) {}

  // Fills `into` from position `at` of the record on. Throws what decoding throws, zstd_truncated.
  void read(ItemId item, uint64_t at, MutableBytes into);

  // The most that it holds for boxes and records of that size.
  static uint64_t memory_bytes(uint64_t box_bytes, uint64_t record_bytes) {
    return kMax * (std::min(2 * kKept + box_bytes, record_bytes) + kDecoder);
  }

 private:
  static constexpr size_t kMax = 4;              // records at once: those that a box of a plain layout crosses, and the next
  static constexpr uint64_t kKept = 4 << 20;     // bytes behind the last place, so that spans need not ascend one by one
  static constexpr uint64_t kDecoder = 9 << 20;  // what decoding takes: zstd's window of 8 MiB, and blocks
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
  std::deque<Open> open_;  // the last used first
};

}  // namespace dcp
