// The header of a safetensors file: tensors fill the file without holes; and written anew it is the same.
#include <algorithm>

#include "format/safetensors.h"
#include "fuzz.h"

namespace dcp::fuzz {
namespace {

// A header says how long the file must be: the largest end of a tensor, if it can be read as a file at all.
uint64_t file_bytes(Bytes input, const Place& place) {
  const uint64_t header = safetensors_header_bytes(input.first(8), uint64_t{1} << 40, place, kLimits);
  uint64_t most = 0;
  constexpr std::string_view kKey("\"data_offsets\":[");
  const std::string_view text = as_text(input);
  for (size_t at = text.find(kKey); at != text.npos; at = text.find(kKey, at + 1)) {
    const size_t comma = text.find(',', at);
    if (comma != text.npos) most = std::max<uint64_t>(most, std::strtoull(std::string(text.substr(comma + 1, 20)).c_str(), nullptr, 10));
  }
  return header + std::min(most, uint64_t{1} << 40);
}

}  // namespace

void run(Bytes input) {
  const Place place{.path = "model.safetensors"};
  if (input.size() < 8) return;
  const uint64_t bytes = file_bytes(input, place);
  const uint64_t head = safetensors_header_bytes(input.first(8), bytes, place, kLimits);
  if (head > input.size()) return;
  const SafetensorsHeader header = read_safetensors_header(input.first(head), bytes, place, kLimits);
  uint64_t end = head;
  for (const SafetensorsEntry& e : header.entries)
    if (e.fault) return;
  for (const SafetensorsEntry& e : header.entries) {
    must(e.offset == end, "tensors lie back to back");
    end += e.bytes;
  }
  must(end >= bytes, "tensors fill the file, if it was not cut short");
  try {
    read_sharding_info(header, place, kLimits);
  } catch (const Error&) {
  }
  std::vector<SafetensorsEntry> entries = header.entries;
  const std::string written = write_safetensors_header(entries, header.metadata);
  surely("what was written is read", [&] {
    const SafetensorsHeader again = read_safetensors_header(as_bytes(written), written.size() + end - head, place, kLimits);
    must(again.metadata == header.metadata && again.entries.size() == header.entries.size(), "as much as before");
    for (size_t i = 0; i < entries.size(); ++i) {
      const SafetensorsEntry &a = again.entries[i], &b = header.entries[i];
      must(a.dtype == b.dtype && a.shape == b.shape && a.bytes == b.bytes, "the tensors are the same");
    }
    return 0;
  });
}

}  // namespace dcp::fuzz
