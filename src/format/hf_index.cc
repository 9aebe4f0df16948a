#include <algorithm>

#include "format/json_text.h"
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
