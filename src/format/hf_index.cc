// The index that Hugging Face puts beside several safetensors files:
//   {"metadata"?: {"total_size"?: bytes, ...}, "weight_map": {tensor: file...}}
#include <algorithm>
#include <unordered_set>

#include "format/json_text.h"
#include "format/json_walk.h"
#include "format/safetensors.h"

namespace dcp {
namespace {

void append(std::string& out, std::string_view text) {
  if (append_json_text(out, text, JsonText::kAscii)) return;
  Place place;
  place.tensor = text;
  fail(ProblemId::safetensors_bad_name, std::move(place), "text that is not UTF-8");
}

}  // namespace

HfIndex read_hf_index(std::string_view json, const Place& place, const Limits& limits) {
  HfIndex index;
  bool has_map = false;
  std::unordered_set<std::string> names;
  walk_json(json, place, limits, ProblemId::hf_index_bad, [&](std::span<const std::string> keys, const JsonValue& v) {
    if (keys.size() == 2 && keys[0] == "metadata" && keys[1] == "total_size" && v.kind == JsonValue::Kind::kNatural)
      index.total_bytes = v.number;
    if (keys.empty() || keys[0] != "weight_map") return;
    Place here = place;
    if (keys.size() > 1) here.tensor = keys[1];
    if (keys.size() == 1) {
      if (v.kind != JsonValue::Kind::kObject || std::exchange(has_map, true))
        fail(ProblemId::hf_index_bad, here, "a weight_map that is not an object, or two of them");
    } else {
      if (v.kind != JsonValue::Kind::kText) fail(ProblemId::hf_index_bad, here, "no file name");
      if (!names.insert(keys[1]).second) fail(ProblemId::hf_index_bad, here, "the tensor twice");
      index.weight_map.emplace_back(keys[1], v.text);
    }
  });
  if (!has_map) fail(ProblemId::hf_index_bad, place, "no weight_map");
  return index;
}

std::string write_hf_index(uint64_t total_bytes, const std::vector<std::pair<std::string, std::string>>& name_to_file) {
  auto sorted = name_to_file;
  std::ranges::sort(sorted);
  std::string out = "{\n  \"metadata\": {\n    \"total_size\": " + std::to_string(total_bytes) + "\n  },\n  \"weight_map\": {";
  for (size_t i = 0; i < sorted.size(); ++i) {
    out += i == 0 ? "\n    " : ",\n    ";
    append(out, sorted[i].first);
    out += ": ";
    append(out, sorted[i].second);
  }
  out += sorted.empty() ? "}\n}\n" : "\n  }\n}\n";
  return out;
}

}  // namespace dcp
