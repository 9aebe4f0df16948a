// safetensors files and the index that Hugging Face puts beside them.
//
// Grammar (safetensors/src/tensor.rs, 0.4 to 0.8):
//   file   := header_bytes:8 header tensors        (little-endian; tensors back to back, without holes, to the end of the file)
//   header := JSON object, padded with spaces to a multiple of 8
//             {"__metadata__"?: {text: text...}, name: {"dtype": text, "shape": [n...], "data_offsets": [begin, end]}...}
//   offsets count from the end of the header
// float4_e2m1fn_x2 is "F4", whose shape counts single values: twice torch's last dim.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
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
  std::vector<int64_t> shape;  // as torch counts
  uint64_t offset = 0;         // bytes from the start of the file
  uint64_t bytes = 0;
  std::shared_ptr<const Problem> fault = nullptr;  // why only its name is known, and its shape if that is possible
};

// Order in which the reference library lays tensors out: by dtype (larger elements first, then as in its own list), then by name in
// code-point order. Both dtypes must have a safetensors form.
bool safetensors_before(DType dtype_a, std::string_view name_a, DType dtype_b, std::string_view name_b);

// Header for tensors in the order given. Fills `bytes` and `offset` of the entries from their dtype and shape (torch's shape), back to
// back. The returned bytes are the whole header with its length prefix, as the reference writes them. Throws safetensors_no_dtype for a
// tensor whose dtype the format lacks, safetensors_bad_name for names that are not UTF-8, over_limit for a header over 100 MB.
std::string write_safetensors_header(std::vector<SafetensorsEntry>& entries, const std::map<std::string, std::string>& metadata);

// True for the first bytes of a safetensors file of at most `max_bytes`: the length of the header, then the beginning of JSON.
bool begins_like_safetensors(Bytes head, uint64_t max_bytes);
inline constexpr std::string_view kSafetensorsEnding = ".safetensors";
inline constexpr uint64_t kSafetensorsBeginBytes = 9;
inline constexpr uint64_t kMaxSafetensorsHeader = 100'000'000;  // bytes of JSON, as in the reference library

// Bytes of the header with its length prefix, from the first 8 bytes of a file of `file_bytes`.
uint64_t safetensors_header_bytes(Bytes first, uint64_t file_bytes, const Place& place, const Limits& limits);

// `head` holds at least the header with its length prefix; `file_bytes` is the size of the file. Validates as the reference does: no holes,
// no overlap, no trailing bytes, shape x dtype = range; duplicate keys and depth refused. Errors are of the safetensors_* family. A fault
// of a single entry is recorded in the entry; bytes may then belong to no tensor. A file that was cut short is not refused: entries may end
// behind it, and those before its end can be read.
struct SafetensorsHeader {
  std::map<std::string, std::string> metadata;
  std::vector<SafetensorsEntry> entries;  // in order of offset
};
SafetensorsHeader read_safetensors_header(Bytes head, uint64_t file_bytes, const Place& place, const Limits& limits);

// How torch.distributed.checkpoint marks a shard (2.7 to 2.15): `__metadata__`.DCP_SHARDING_INFO is JSON text,
//   {tensor: {"saved_offsets": [n...], "logical_fqn"?: fqn}...}
// Development snapshots store several chunks of one fqn in one file, each under a name of its own, and give logical_fqn.
struct SavedShard {
  std::vector<int64_t> offsets;
  std::string fqn;  // "": the tensor's own name
};
using ShardingInfo = std::map<std::string, SavedShard, std::less<>>;
// nullopt: the file is not a shard. Throws sharding_info_bad, over_limit.
std::optional<ShardingInfo> read_sharding_info(const SafetensorsHeader& header, const Place& place, const Limits& limits);

// The useful part of an index: which file holds which tensor.
struct HfIndex {
  std::vector<std::pair<std::string, std::string>> weight_map;  // tensor, file; in the file's order
  std::optional<uint64_t> total_bytes;
};
// Throws hf_index_bad, over_limit.
HfIndex read_hf_index(std::string_view json, const Place& place, const Limits& limits);

// model.safetensors.index.json as transformers writes it: json.dumps(index, indent=2, sort_keys=True) and a newline, ASCII only.
std::string write_hf_index(uint64_t total_bytes, const std::vector<std::pair<std::string, std::string>>& name_to_file);

}  // namespace dcp
