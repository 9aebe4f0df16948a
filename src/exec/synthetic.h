// Writes synthetic sharded checkpoints that torch loads: large inputs for tests and benchmarks, at the speed of the disk.
//
// Every element is a function of (seed, tensor, its index in the global tensor), so every layout gives the same tensors. Floats are finite,
// with magnitudes between 1 and 2.
#pragma once

#include <cstdint>
#include <string>

#include "base/bytes.h"
#include "base/io.h"
#include "base/workers.h"
#include "exec/dcp_folder.h"
#include "format/dtype.h"

namespace dcp {

struct SyntheticSpec {
  enum class Layout : uint8_t { kShard0, kShard1, kWhole };
  uint64_t bytes = uint64_t{1} << 30;  // of all tensors together, rounded down to whole rows
  uint32_t world_size = 4;
  Layout layout = Layout::kShard0;  // kWhole: unsharded tensors, dealt out over the ranks' files
  uint32_t tensors = 32;            // 2-D, of equal size
  DType dtype{};
  uint64_t seed = 1;
};

struct SyntheticReport {
  uint64_t tensor_bytes = 0;
  uint64_t file_bytes = 0;
  uint64_t items = 0;
};

// Writes a new DCP folder `out` (output_exists unless it is absent or empty), committed whole. Keys are model.layers.N.weight, with planner
// data. Throws usage for a spec that gives empty tensors.
SyntheticReport write_synthetic(Io& io, const std::string& out, const SyntheticSpec& spec, const FolderOptions& options,
                                const StopFlag& stop);

// The elements of a tensor beginning at global element `first`, as write_synthetic() makes them: with noise() as splitmix64's step, the 8
// bytes at 8 * i of the tensor are noise(noise(seed ^ tensor << 32) + i), floats with their exponent set to that of 1.0.
void synthetic_values(MutableBytes to, DType dtype, uint64_t seed, uint32_t tensor, uint64_t first);

}  // namespace dcp
