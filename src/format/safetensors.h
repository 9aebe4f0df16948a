// safetensors: 8-byte little-endian header length, JSON header padded with spaces to 8 bytes, tensor bytes back to back.
// Source: safetensors/src/tensor.rs (0.4 to 0.6): tensors ordered by dtype alignment descending, then by name; `__metadata__` first.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "base/limits.h"
#include "base/problem.h"
#include "format/dtype.h"

namespace dcp {

struct SafetensorsEntry {
  std::string name;
  DType dtype{};
  std::vector<int64_t> shape;
  uint64_t offset = 0;  // bytes from the start of the file
  uint64_t bytes = 0;
};

// Order in which the reference library lays tensors out: larger element first, then by name in code-point order.
bool safetensors_before(DType dtype_a, std::string_view name_a, DType dtype_b, std::string_view name_b);

// Header for tensors in the order given (offsets assigned back to back, written into `entries`); the returned bytes are the whole
// header with its length prefix. Fails with safetensors_no_dtype for a dtype that the format lacks.
std::string write_safetensors_header(std::vector<SafetensorsEntry>& entries, const std::map<std::string, std::string>& metadata);

// `head` is the first 8 + header bytes (at least); file_bytes the size of the file. Validates as the reference does: no holes, no
// overlap, no trailing bytes, shape x dtype = range; duplicate keys and depth refused.
struct SafetensorsHeader {
  std::map<std::string, std::string> metadata;
  std::vector<SafetensorsEntry> entries;  // in order of offset
};
SafetensorsHeader read_safetensors_header(Bytes head, uint64_t file_bytes, const Place& place, const Limits& limits);

// model.safetensors.index.json as transformers writes it.
std::string write_hf_index(uint64_t total_bytes, const std::vector<std::pair<std::string, std::string>>& name_to_file);

}  // namespace dcp
