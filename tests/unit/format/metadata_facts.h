// A `.metadata` read, and all that it says as text.
#pragma once

#include <string>

#include "format/dcp_metadata.h"

namespace dcp::test {

inline MetadataContent read_content(const std::string& pickle) { return read_dcp_metadata(as_bytes(pickle), Place{.path = "m"}, Limits{}); }

// All that a content says, one fact a line: two contents are equal if these are.
inline std::string facts(const MetadataContent& c) {
  std::string out;
  const auto numbers = [&](uint64_t at, uint64_t n) {
    std::string text = "(";
    for (uint64_t i = at; i < at + n; ++i) text += std::to_string(c.ints[i]) + ",";
    return text + ")";
  };
  for (const KeyRef ref : c.order) {
    if (ref.is_blob()) {
      out += "blob " + std::string(c.blobs.at(ref.blob())) + "\n";
      continue;
    }
    const auto& t = c.tensors.at(ref.tensor());
    out += "tensor " + std::string(t.key) + " " + std::string(t.dtype_name) + (t.dtype_known ? "" : "?") +
           (t.requires_grad ? " grad " : " ") + numbers(t.dims_at, t.rank);
    for (uint64_t i = t.first_chunk; i < t.first_chunk + t.chunk_count; ++i) {
      out += " " + numbers(c.chunks.at(i).offsets_at, t.rank) + "+" + numbers(c.chunks.at(i).sizes_at, t.rank);
    }
    out += "\n";
  }
  for (const auto& s : c.storage) {
    out += "item " + std::string(s.key) + (s.has_offset ? " " + numbers(s.offsets_at, s.rank) : "") + " " +
           std::string(c.files.at(s.file)) + " " + std::to_string(s.offset) + "+" + std::to_string(s.length);
    for (const auto& name : c.transforms.at(s.transforms)) out += " " + std::string(name);
    out += "\n";
  }
  for (const auto& p : c.paths) {
    out += "path " + std::string(p.key) + " =";
    for (uint64_t i = p.first; i < p.first + p.count; ++i) {
      const auto& e = c.path_elements.at(i);
      out += e.position >= 0 ? " [" + std::to_string(e.position) + "]" : " " + std::string(e.name);
    }
    out += "\n";
  }
  return out + (c.has_planner_data ? "planner\n" : "");
}

}  // namespace dcp::test
