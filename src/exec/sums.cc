#include "exec/sums.h"

#include <algorithm>

namespace dcp {
namespace {

std::string hex(uint32_t crc) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string text = "CRC-32 ";
  for (int shift = 28; shift >= 0; shift -= 4) text += kDigits[(crc >> shift) & 15];
  return text;
}

void need_complete(const Crc32Sum& sum, uint64_t bytes, const Place& place) {
  if (sum.added() != bytes)
    fail(ProblemId::internal, place, std::to_string(sum.added()) + " bytes summed", std::to_string(bytes));
}

// `offset` is in the file, or in the decoded stream of a transformed item, which is named as a whole.
Problem mismatch(const Catalog& catalog, ItemId item, std::string_view key, uint64_t offset, uint64_t bytes, uint32_t got, uint32_t expected) {
  Place place = catalog.place_of(item, key);
  if (catalog.items[item].transforms == 0) {
    place.offset = offset;
    place.length = bytes;
  }
  return make_problem(ProblemId::crc_mismatch, std::move(place), hex(got) + " over " + std::to_string(bytes) + " bytes", hex(expected));
}

std::string_view key_of(const Catalog& catalog, ItemId item) {
  if (item >= catalog.chunk_total) return catalog.key(catalog.blobs[item - catalog.chunk_total]);
  const auto owns = [&](const Tensor& t) { return item - t.first_chunk < t.chunk_count; };
  return catalog.key(*std::ranges::find_if(catalog.tensors, owns));
}

}  // namespace

std::vector<Problem> RunSums::mismatches(const Catalog& catalog, const Resolved& resolved, uint64_t& checked) const {
  std::vector<Problem> found;
  for (const PlanTensor& p : plan_.tensors) {
    const Tensor& t = catalog.tensors[p.id];
    for (uint32_t c = 0; c < t.chunk_count; ++c) {
      const ItemId item = catalog.item_of(t, c);
      if (!wants_item(item)) continue;
      const ItemInfo& info = resolved.items[item];
      const Place place = catalog.place_of(item, catalog.key(t));
      need_complete(items_[item], info.record_bytes, place);
      ++checked;
      const uint32_t got = items_[item].value(info.record_bytes);
      if (got != info.crc) found.push_back(mismatch(catalog, item, catalog.key(t), info.record, info.record_bytes, got, info.crc));
    }
  }
  for (size_t i = 0; i < plan_.copies.size(); ++i) {
    const CopyRange& copy = plan_.copies[i];
    const Place place = catalog.place_of(copy.item, {});
    need_complete(copies_[i], copy.bytes, place);
    if (!copy.has_crc) continue;
    ++checked;
    const uint32_t got = copies_[i].value(copy.bytes);
    if (got != copy.crc) found.push_back(mismatch(catalog, copy.item, key_of(catalog, copy.item), copy.source_offset, copy.bytes, got, copy.crc));
  }
  return found;
}

std::vector<uint32_t> RunSums::archive_crcs(const Catalog& catalog, const OutputFile& file) const {
  std::vector<uint32_t> crcs;
  crcs.reserve(file.payloads.size());
  for (uint64_t record = 0; record < file.payloads.size(); ++record) {
    const ArchivePayload& p = file.payloads[record];
    const uint64_t bytes = file.archive->payload_bytes(record);
    switch (p.kind) {
      case ArchivePayload::Kind::kLiteral: crcs.push_back(crc32(as_bytes(plan_.literals[p.index].bytes))); break;
      case ArchivePayload::Kind::kCopy: crcs.push_back(copies_[p.index].value(bytes)); break;
      case ArchivePayload::Kind::kRegion: {
        const Region& r = plan_.regions[p.index];
        need_complete(regions_[p.index], bytes, {.path = catalog.path, .tensor = std::string(catalog.key(catalog.tensors[plan_.tensors[r.tensor].id]))});
        crcs.push_back(regions_[p.index].value(bytes));
        break;
      }
    }
  }
  return crcs;
}

}  // namespace dcp
