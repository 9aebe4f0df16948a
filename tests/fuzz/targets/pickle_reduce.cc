// The typed reader of a tensor's pickle, inside an archive whose other records are right: what it accepts lies inside the storage.
#include <cstring>
#include <vector>

#include "base/sums.h"
#include "format/torch_archive.h"
#include "fuzz.h"
#include "items/item_source.h"

namespace dcp::fuzz {

void run(Bytes input) {
  constexpr std::string_view kStorage("0123456789abcdefghijklmnopqrstuv0123456789abcdefghijklmnopqrstuv"), kVersion("3\n");
  TorchArchiveLayout layout;
  std::vector<std::pair<uint64_t, Bytes>> payloads;
  const auto add = [&](std::string_view name, Bytes bytes) { payloads.emplace_back(layout.add(name, bytes.size()), bytes); };
  add("data.pkl", input);
  add("data/0", as_bytes(kStorage));
  add("data/1", as_bytes(kStorage.substr(0, 24)));
  add("version", as_bytes(kVersion));
  std::vector<std::byte> archive(layout.total_bytes());
  std::vector<uint32_t> crcs;
  for (const auto& [at, bytes] : payloads) {
    if (!bytes.empty()) std::memcpy(archive.data() + at, bytes.data(), bytes.size());
    crcs.push_back(crc32(bytes));
  }
  layout.emit_frame(crcs, [&](uint64_t at, Bytes bytes) { std::memcpy(archive.data() + at, bytes.data(), bytes.size()); });

  MemorySource source(archive);
  const TensorItem item = read_tensor_item(source, {.path = "item"}, kLimits);
  if (item.form == ItemForm::kOpaque) return;
  must(item.sizes.size() == item.strides.size(), "a stride for each dim");
  uint64_t last = item.storage_offset, elements = 1;  // the furthest element
  for (size_t d = 0; d < item.sizes.size(); ++d) {
    must(item.sizes[d] >= 0 && item.strides[d] >= 0, "no size below 0");
    elements = item.sizes[d] == 0 ? 0 : elements;
    if (elements > 0) last += static_cast<uint64_t>(item.sizes[d] - 1) * static_cast<uint64_t>(item.strides[d]);
  }
  const uint64_t each = facts_of(item.dtype).bytes;
  if (elements > 0) must((last + 1) * each <= item.record_bytes, "the tensor lies in its storage");
  must(item.payload + item.record_bytes <= archive.size(), "the storage lies in the archive");
}

}  // namespace dcp::fuzz
