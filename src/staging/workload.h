// The data to stage: the tensors of one rank's checkpoint, or one buffer of a given size.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "catalog/catalog.h"
#include "exec/dcp_folder.h"

namespace dcp {

struct Workload {
  std::string name;                   // "llama-8b, rank 0 of 8", "4.0 MiB"
  std::vector<FolderTensor> tensors;  // as this rank holds them
  uint64_t bytes() const;
  uint64_t largest() const;  // bytes of the largest tensor
};

// Bytes of one tensor. Throws number_overflow.
uint64_t tensor_bytes(const FolderTensor& tensor);

// Offsets of consecutive tensors, each at a multiple of `alignment`; the last entry is the end.
std::vector<uint64_t> offsets_of(const std::vector<FolderTensor>& tensors, uint64_t alignment);

// One uint8 tensor of each size: `first`, then four times as much, and so on, `last` included.
std::vector<Workload> size_curve(uint64_t first, uint64_t last);
Workload many_of(uint64_t count, uint64_t bytes);

// Built-in lists of tensors.
std::vector<std::string_view> model_names();
struct ModelSpec {
  std::string_view name;
  DType dtype{};                      // of the weights
  bool optimizer = false;             // AdamW's exp_avg and exp_avg_sq in float32 and its step beside each weight
  uint32_t world_size = 1, rank = 0;  // FSDP2: each tensor's dim 0 in ceil-sized parts
};
// Throws usage for an unknown name.
Workload model_workload(const ModelSpec& spec);

// The chunks that lie in rank R's files, each as a tensor of its own; without a rank, the whole tensors. Throws nothing_selected.
Workload checkpoint_workload(const Catalog& catalog, std::optional<uint32_t> rank);

}  // namespace dcp
