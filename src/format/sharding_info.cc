// Reader of DCP_SHARDING_INFO. Source: torch/distributed/checkpoint/filesystem.py _write_files_from_queue, _hf_utils.py.
#include <limits>

#include "format/json_walk.h"
#include "format/safetensors.h"

namespace dcp {
namespace {

constexpr std::string_view kKey = "DCP_SHARDING_INFO";

}  // namespace

std::optional<ShardingInfo> read_sharding_info(const SafetensorsHeader& header, const Place& place, const Limits& limits) {
  const auto found = header.metadata.find(std::string(kKey));
  if (found == header.metadata.end()) return std::nullopt;
  ShardingInfo info;
  Place here = place;
  here.member = kKey;
  const auto bad = [&](std::span<const std::string> keys, const std::string& got) {
    Place at = here;
    if (!keys.empty()) at.tensor = keys[0];
    fail(ProblemId::sharding_info_bad, at, got);
  };
  walk_json(found->second, here, limits, ProblemId::sharding_info_bad, [&](std::span<const std::string> keys, const JsonValue& v) {
    if (keys.empty()) return;
    if (keys.size() == 1) {
      if (v.kind != JsonValue::Kind::kObject) bad(keys, "no object");
      if (!info.try_emplace(keys[0]).second) bad(keys, "the tensor twice");
      return;
    }
    SavedShard& shard = info.find(keys[0])->second;
    if (keys[1] == "logical_fqn" && v.kind == JsonValue::Kind::kText) shard.fqn = v.text;
    if (keys[1] != "saved_offsets") return;
    if (keys.size() == 2 && v.kind == JsonValue::Kind::kArray && shard.offsets.empty()) return;
    if (keys.size() != 3 || v.kind != JsonValue::Kind::kNatural || v.number > static_cast<uint64_t>(std::numeric_limits<int64_t>::max()))
      bad(keys, "saved_offsets that are not a list of numbers");
    if (shard.offsets.size() == limits.tensor_rank)
      fail(ProblemId::over_limit, here, std::to_string(shard.offsets.size() + 1) + " numbers",
           "at most " + std::to_string(limits.tensor_rank));
    shard.offsets.push_back(static_cast<int64_t>(v.number));
  });
  return info;
}

}  // namespace dcp
