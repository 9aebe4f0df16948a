// A box of a tensor that lies in memory of the caller's: checked, since all of it is the caller's word, and gone through in the order of
// its elements.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "catalog/box.h"
#include "format/dtype.h"

namespace dcp {

// Numbers are in elements. What is empty is filled in by checked().
struct MemoryShard {
  std::string key;
  std::string dtype;             // "float32"
  std::vector<int64_t> shape;    // of the whole tensor
  std::vector<int64_t> offsets;  // of the box in it; empty: zeros
  std::vector<int64_t> sizes;    // of the box; empty: the shape
  std::vector<int64_t> strides;  // of the box in memory; empty: row-major
  const std::byte* data = nullptr;
  std::vector<std::string> path = {};  // in the state dict: joined with dots it is the key; empty: the key alone
  bool requires_grad = false;
};

struct CheckedShard {
  DType dtype{};
  uint64_t bytes = 0;
  bool is_dense = false;  // row-major without gaps
  MemoryShard shard;      // with nothing left empty
};
// Throws usage.
CheckedShard checked(const MemoryShard& shard);

// Its elements row-major, in pieces that are dense in memory: as long as they are, but at most `max` bytes. Elements are never cut.
void each_run(const CheckedShard& shard, uint64_t max, const std::function<void(Bytes)>& fn);
// The same in blocks of about `block` bytes, valid during the call: what lies apart is copied together.
void each_block(const CheckedShard& shard, uint64_t block, const std::function<void(Bytes)>& fn);

}  // namespace dcp
