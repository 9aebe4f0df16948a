// Statistics of each tensor: bounds, mean, deviation, NaN and infinite values. Streams tensors by units.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "app/stages.h"
#include "exec/tensor_stats.h"

namespace dcp {

struct StatsRequest {
  ReadRequest read;
  SelectOptions select;
  std::string glob = "*";          // among selected keys, by final names
  std::optional<Subscript> slice;  // of the single selected tensor
};

struct KeyStats {
  std::string key;
  DType dtype{};
  std::vector<int64_t> shape;
  bool has_numbers = true;  // other dtypes are not examined
  TensorStats stats;
  std::optional<Problem> fault;  // why it could not be read
};

struct StatsResult {
  std::string checkpoint;  // the path that was read: a step of a run
  std::vector<KeyStats> tensors;
  std::vector<UnmatchedRule> unmatched;  // rules that match no key
  uint64_t objects = 0;                  // that are selected as well
  uint64_t bytes_read = 0;
};

// If a tensor cannot be read, its fault is in the result and the others go on.
void stats(const StatsRequest& request, World& world, StatsResult& result);

}  // namespace dcp
