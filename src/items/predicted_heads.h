// Where each read takes long, not every item's head is read before the work is planned. Chunks of one tensor that have one shape and one
// length are expected to be alike: their data lies where the first of them has it. Before a byte of such an item is used its own head is
// read, next to the data, and has to say the same.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <vector>

#include "base/limits.h"
#include "base/problem.h"
#include "catalog/data_files.h"

namespace dcp {

// An item is not as predicted. The plan is wrong, and nothing of it may be committed: with all heads read, it is made again.
class UnlikeHead : public Error {
 public:
  using Error::Error;
};

class PredictedHeads {
 public:
  // What alike items have in common.
  struct Kind {
    uint64_t length = 0;
    std::vector<int64_t> sizes;
    ItemInfo info;  // `record` counts from the item's first byte, `crc` is 0
  };
  struct One {
    uint64_t offset = 0;
    uint32_t file = 0;
    uint32_t kind = 0;
  };
  // `items` are sorted by file and offset, and do not overlap.
  PredictedHeads(std::vector<Kind> kinds, std::vector<One> items, const Limits& limits)
      : kinds_(std::move(kinds)), items_(std::move(items)), proven_(items_.size()), limits_(limits) {}

  // The CRC of the predicted item that has byte `offset` of a file, if one does: its head has been read, if need be now. Throws UnlikeHead,
  // and what reading throws.
  std::optional<uint32_t> prove(DataFiles& files, uint32_t file, uint64_t offset);

 private:
  uint32_t read(DataFiles& files, const One& item) const;

  std::vector<Kind> kinds_;
  std::vector<One> items_;
  std::vector<std::atomic<uint64_t>> proven_;  // by item: kProven and its CRC
  Limits limits_;
};

}  // namespace dcp
