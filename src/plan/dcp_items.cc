#include "plan/dcp_items.h"

#include <algorithm>

#include "base/sums.h"
#include "catalog/structure.h"
#include "format/torch_item_write.h"
#include "pickle/splice.h"
#include "plan/layout.h"
#include "plan/tree_pickle.h"

namespace dcp {

uint64_t DcpItems::copy(ItemId id, std::string_view key, At at) {
  const bool is_made = catalog_.items[id].file == kNone && resolved_.views.any();
  if (!catalog_.traits().in_torch_files && !is_made) return copy_whole(id, key, at);
  // An item that shares a torch.save file with others gets its own archive, as does an object that a map has made.
  const BlobItem& blob = resolved_.blob(id).item;
  std::vector<Storage> storages;
  for (const BlobItem::Storage& s : blob.storages) storages.push_back({.item = id, .of = &s});
  return archive(std::string(as_text(blob.pickle)), blob.big_endian ? "big" : std::string(kByteorderLittle), storages, false, at);
}

// Copies an item unchanged. A transformed one is copied in its decoded form, which every torch can read.
uint64_t DcpItems::copy_whole(ItemId id, std::string_view key, At at) {
  const Item& item = catalog_.items[id];
  const auto found = resolved_.blobs.find(resolved_.first_of(id));
  const bool decoded = item.transforms != 0;
  if (found == resolved_.blobs.end()) {  // a chunk without elements
    check_item(catalog_, id, key, "item");
    if (decoded) fail(ProblemId::transform_unknown, catalog_.place_of(id, key), "an empty chunk of a tensor that is not plain");
  }
  CopyRange range{.item = id,
                  .from_decoded = decoded,
                  .source_offset = decoded ? 0 : item.offset,
                  .bytes = item.length,
                  .file = at.file,
                  .file_offset = at.offset};
  if (decoded) range.bytes = found->second.decoded.size();
  plan_.copies.push_back(range);
  if (found == resolved_.blobs.end() || !options_.verify) return range.bytes;
  for (const BlobItem::Storage& s : found->second.item.storages)
    if (s.has_crc && s.bytes > 0) add_check(plan_, {.at = s.payload - range.source_offset, .bytes = s.bytes, .crc = s.crc});
  return range.bytes;
}

uint64_t DcpItems::container(const FlatEntries& flat, uint32_t node, At at) {
  std::string pickle;
  PickleWriter writer(pickle, PickleProtocol::k2);
  std::vector<Storage> storages;
  writer.begin();
  write_container(*flat.tree, node, writer, [&](uint32_t entry) { splice(selection_.entries[entry], writer, storages); }, plan_.list_holes);
  writer.end();
  return archive(std::move(pickle), std::string(kByteorderLittle), storages, true, at);
}

void DcpItems::splice(const Entry& entry, PickleWriter& writer, std::vector<Storage>& storages) const {
  const ItemId item = catalog_.item_of(entry.blob());
  const ResolvedBlob& blob = resolved_.blob(item);
  const Place place = catalog_.place_of(item, catalog_.key(entry.ref));
  if (blob.item.big_endian && !blob.item.storages.empty()) fail(ProblemId::blob_big_endian, place);
  const StoragesByKey of_key = by_key(blob.item);
  const auto renumber = [&](std::string_view key) {
    const auto it = of_key.find(key);
    if (it == of_key.end()) fail(ProblemId::item_no_record, place, "data/" + std::string(key));
    storages.push_back({.item = item, .from_decoded = !blob.decoded.empty(), .of = it->second});
    return std::to_string(storages.size() - 1);
  };
  splice_pickle(blob.item.pickle, blob.item.pickle_place, options_.limits, renumber, writer);
}

// A storage whose writer computed no CRC gets none here, since its bytes are not seen.
uint64_t DcpItems::archive(std::string pickle, std::string byteorder, const std::vector<Storage>& storages, bool renumber, At at) {
  TorchArchiveLayout layout;
  std::vector<uint32_t> crcs;
  const auto literal = [&](std::string_view name, std::string bytes) {
    crcs.push_back(crc32(as_bytes(bytes)));
    const uint64_t offset = at.offset + layout.add(name, bytes.size());
    plan_.literals.push_back({.file = at.file, .file_offset = offset, .bytes = std::move(bytes)});
  };
  literal("data.pkl", std::move(pickle));
  literal("byteorder", std::move(byteorder));
  for (size_t n = 0; n < storages.size(); ++n) {
    const BlobItem::Storage& s = *storages[n].of;
    crcs.push_back(s.has_crc ? s.crc : 0);
    const uint64_t offset = at.offset + layout.add("data/" + (renumber ? std::to_string(n) : s.key), s.bytes);
    plan_.copies.push_back({.item = storages[n].item,
                            .packed = s.packed,
                            .from_decoded = storages[n].from_decoded,
                            .source_offset = s.payload,
                            .bytes = s.bytes,
                            .file = at.file,
                            .file_offset = offset});
    add_check(plan_, {.at = 0, .bytes = s.bytes, .crc = s.crc, .has_crc = options_.verify && s.has_crc});
  }
  literal("version", std::string(kArchiveVersion));
  layout.emit_frame(crcs, [&](uint64_t offset, Bytes bytes) {
    plan_.literals.push_back({.file = at.file, .file_offset = at.offset + offset, .bytes = std::string(as_text(bytes))});
  });
  return layout.total_bytes();
}

}  // namespace dcp
