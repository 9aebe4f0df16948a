// The directory of an archive: records lie inside the slice and apart, and hold what it says; and written anew it is the same.
#include <cstring>
#include <vector>

#include "format/item_archive.h"
#include "format/torch_archive.h"
#include "format/torch_item.h"
#include "fuzz.h"
#include "items/item_source.h"

namespace dcp::fuzz {
namespace {

void check_layout(const ZipDirectory& directory) {
  TorchArchiveLayout layout(directory.root);
  std::vector<uint32_t> crcs;
  for (const ZipRecord& r : directory.records) {
    layout.add(r.name, r.size);
    crcs.push_back(r.crc);
  }
  if (layout.total_bytes() > 16 * kMiB) return;
  std::vector<std::byte> bytes(layout.total_bytes());
  layout.emit_frame(crcs, [&](uint64_t at, Bytes part) {
    must(at <= bytes.size() && part.size() <= bytes.size() - at, "a frame lies in its archive");
    std::memcpy(bytes.data() + at, part.data(), part.size());
  });
  MemorySource source(bytes);
  surely("what was written is read", [&] {
    const ZipDirectory again = read_zip_directory(source, {.path = "again"}, kLimits);
    must(again.root == directory.root && again.records.size() == directory.records.size(), "as many records");
    for (size_t i = 0; i < again.records.size(); ++i) {
      const ZipRecord &a = again.records[i], &b = directory.records[i];
      must(a.name == b.name && a.size == b.size && a.crc == b.crc && a.method == ZipRecord::kStored, "the records are the same");
      must(payload_of(source, again, a, {.path = "again"}) == layout.payload(i), "the payload is where it was put");
    }
    return 0;
  });
}

}  // namespace

void run(Bytes input) {
  const Place place{.path = "slice"};
  MemorySource source(input);
  const ZipDirectory directory = read_zip_directory(source, place, kLimits);
  must(directory.end <= input.size(), "the end lies in the slice");
  uint64_t last = 0;
  bool writable = !directory.root.empty() && directory.root.size() < 1000;
  for (const ZipRecord& r : directory.records) {
    must(r.header >= last && r.limit <= input.size() && r.header < r.limit, "records lie in order");
    last = r.limit;
    must(directory.find(r.name) == &r, "a record is found by its name");
    writable = writable && !r.name.empty() && r.name.size() < 1000;
    try {
      const uint64_t at = payload_of(source, directory, r, place);
      must(at > r.header && at <= r.limit && r.packed <= r.limit - at, "a payload lies in its record");
      if (r.size > kMiB) continue;
      uint64_t bytes = 0;
      read_record(source, r, at, place, [&](Bytes b) { bytes += b.size(); });
      must(bytes == r.size, "a record holds what the directory says");
    } catch (const Error&) {
      writable = false;
    }
  }
  if (writable) check_layout(directory);
}

}  // namespace dcp::fuzz
