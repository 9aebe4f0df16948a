#include "staging/workload.h"

#include <algorithm>

#include "base/checked.h"
#include "catalog/data_files.h"

namespace dcp {

uint64_t tensor_bytes(const FolderTensor& t) {
  uint64_t bytes = bytes_of(t.dtype);
  for (const int64_t d : t.dims) bytes = mul_or_fail(bytes, static_cast<uint64_t>(d), {.tensor = t.key});
  return bytes;
}

uint64_t Workload::bytes() const {
  uint64_t sum = 0;
  for (const FolderTensor& t : tensors) sum = add_or_fail(sum, tensor_bytes(t), {.tensor = t.key});
  return sum;
}

uint64_t Workload::largest() const {
  uint64_t max = 0;
  for (const FolderTensor& t : tensors) max = std::max(max, tensor_bytes(t));
  return max;
}

std::vector<uint64_t> offsets_of(const std::vector<FolderTensor>& tensors, uint64_t alignment) {
  std::vector<uint64_t> offsets;
  uint64_t end = 0;
  for (const FolderTensor& t : tensors) {
    offsets.push_back(end);
    end += (tensor_bytes(t) + alignment - 1) / alignment * alignment;
  }
  offsets.push_back(end);
  return offsets;
}

Workload many_of(uint64_t count, uint64_t bytes) {
  Workload w;
  for (uint64_t i = 0; i < count; ++i) w.tensors.push_back({"tensor." + std::to_string(i), DType::uint8, {static_cast<int64_t>(bytes)}});
  return w;
}

std::vector<Workload> size_curve(uint64_t first, uint64_t last) {
  std::vector<Workload> curve;
  for (uint64_t bytes = first; bytes < last && bytes > 0; bytes = bytes > last / 4 ? last : bytes * 4) curve.push_back(many_of(1, bytes));
  curve.push_back(many_of(1, last));
  return curve;
}

Workload checkpoint_workload(const Catalog& catalog, std::optional<uint32_t> rank) {
  Workload w;
  for (const Tensor& t : catalog.tensors) {
    if (!t.dtype_known || facts_of(t.dtype).kind == DTypeKind::kQuantized) continue;
    const std::string key(catalog.key(t));
    if (!rank) {
      const Dims dims = catalog.dims(t);
      w.tensors.push_back({key, t.dtype, {dims.begin(), dims.end()}});
      continue;
    }
    uint32_t chunks = 0;
    for (uint32_t c = 0; c < t.chunk_count; ++c) {
      const uint32_t file = catalog.items[catalog.item_of(t, c)].file;
      if (file == kNone || rank_of_file(catalog.file_name(file)) != rank) continue;
      const Dims sizes = catalog.box(t, c).sizes;
      w.tensors.push_back({chunks == 0 ? key : key + ".chunk" + std::to_string(chunks), t.dtype, {sizes.begin(), sizes.end()}});
      ++chunks;
    }
  }
  std::erase_if(w.tensors, [](const FolderTensor& t) { return volume(t.dims) == 0; });
  if (w.tensors.empty())
    fail(ProblemId::nothing_selected, {.path = catalog.path}, rank ? "no tensor of rank " + std::to_string(*rank) : "no tensor");
  return w;
}

}  // namespace dcp
