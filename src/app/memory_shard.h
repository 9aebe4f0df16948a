// A box of a tensor in the caller's memory, or an object: checked, since the caller may be wrong, and traversed in element order.
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

// Numbers count elements. checked() fills in empty members.
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
  MemoryShard shard;      // with empty members filled in
};
// An object in memory, as a file of torch.save.
struct MemoryObject {
  std::string key;
  std::vector<std::string> path = {};  // as above
  Bytes bytes;
};

// Throw usage.
CheckedShard checked(const MemoryShard& shard);
MemoryObject checked(const MemoryObject& object);

// Passes its elements in row-major order, in pieces that are dense in memory: as long as possible, but at most `max` bytes. Never splits an
// element.
void each_run(const CheckedShard& shard, uint64_t max, const std::function<void(Bytes)>& fn);
// The same in blocks of about `block` bytes, valid during the call: scattered elements are copied together.
void each_block(const CheckedShard& shard, uint64_t block, const std::function<void(Bytes)>& fn);

}  // namespace dcp
