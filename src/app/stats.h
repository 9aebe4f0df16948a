// Tensors as numbers: bounds, mean, deviation, what is no number, of each. Streams them by units.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "app/prepare.h"
#include "exec/tensor_stats.h"

namespace dcp {

struct StatsRequest {
  ReadRequest read;
  SelectOptions select;
  std::string glob = "*";          // of what is selected, by final names
  std::optional<Subscript> slice;  // of the one tensor that is selected
};

struct KeyStats {
  std::string key;
  DType dtype{};
  std::vector<int64_t> shape;
  bool has_numbers = true;  // elements of other dtypes are not looked at
  TensorStats stats;
  std::optional<Problem> fault;  // why it could not be read
};

struct StatsResult {
  std::string checkpoint;  // what of the source was read: a step of a run
  std::vector<KeyStats> tensors;
  std::vector<UnmatchedRule> unmatched;  // rules that match no key
  uint64_t objects = 0;                  // that are selected, too
  uint64_t bytes_read = 0;
};

// Of tensors that cannot be read the fault is in the result, and the others are read.
void stats(const StatsRequest& request, World& world, StatsResult& result);

}  // namespace dcp
