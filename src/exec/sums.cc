#include "exec/sums.h"

#include <algorithm>
#include <map>

#include "items/predicted_heads.h"

namespace dcp {
namespace {

void compare_record(const Source& source, const Crc32Sum& sum, ItemRecord r, Faults faults, Compared& out) {
  const Catalog& catalog = source.catalog;
  if (sum.added() != r.bytes) {
    if (faults == Faults::kCollect) return;
    fail(ProblemId::internal, place_of(catalog, r), std::to_string(sum.added()) + " bytes summed", std::to_string(r.bytes));
  }
  if (const Item item = catalog.item_of(r); source.files.predicted && item.transforms == 0)
    r.crc = source.files.predicted->prove(source.files, item.file, r.offset).value_or(r.crc);
  const uint32_t got = sum.value(r.bytes);
  if (!r.has_crc && got != 0) {  // zero may also be the real CRC
    ++out.without_crc;
    return;
  }
  out.checked += r.bytes > 0;
  out.bytes += r.bytes;
  if (got != r.crc) out.damage.push_back(crc_problem(place_of(catalog, r), r.bytes, got, r.crc));
}

}  // namespace

Place place_of(const Catalog& catalog, const ItemRecord& r) {
  const Item item = catalog.item_of(r);
  const bool in_file = item.transforms == 0;
  return {.path = catalog.file_path(item.file),
          .tensor = std::string(catalog.key_of_item(r.item)),
          .object = r.item >= catalog.chunk_total,
          .offset = in_file ? r.offset : item.offset,
          .length = in_file ? r.bytes : item.length};
}

std::vector<RunSums::Part> RunSums::parts() const {
  std::vector<Part> all;
  // The value of no bytes is the register itself.
  for (const auto* list : {&items_, &regions_, &copies_, &copy_checks_, &records_})
    for (const Crc32Sum& s : *list) all.push_back({.bytes = s.added(), .raw = s.value(0)});
  return all;
}

void RunSums::set(const std::vector<Part>& parts) {
  size_t at = 0;
  for (auto* list : {&items_, &regions_, &copies_, &copy_checks_, &records_})
    for (Crc32Sum& s : *list) {
      s.add(parts.at(at).raw ^ s.value(0), parts.at(at).bytes - s.added(), 0);
      ++at;
    }
}

Compared RunSums::compare(const Source& source, Faults faults) const {
  Compared out;
  for (const PlanTensor& p : plan_.tensors) {
    const Tensor& t = source.catalog.tensors[p.id];
    for (uint32_t c = 0; c < t.chunk_count; ++c) {
      const ItemId item = source.catalog.item_of(t, c);
      if (!wants_item(item) || plan_.sum_of(item) != item) continue;
      const ItemInfo& info = source.resolved.items[item];
      compare_record(source, items_[item],
                     {.offset = info.record, .bytes = info.record_bytes, .item = item, .crc = info.crc, .has_crc = true}, faults, out);
    }
  }
  for (const CopyRange& c : plan_.copies) {
    for (uint32_t n = c.first_check; n < c.first_check + c.check_count; ++n) {
      const CopyCheck& check = plan_.copy_checks[n];
      compare_record(
          source, copy_checks_[n],
          {.offset = c.source_offset + check.at, .bytes = check.bytes, .item = c.item, .crc = check.crc, .has_crc = check.has_crc}, faults,
          out);
    }
  }
  for (size_t i = 0; i < plan_.records.size(); ++i)
    if (!plan_.is_rest(plan_.records[i])) compare_record(source, records_[i], plan_.records[i], faults, out);
  if (faults == Faults::kThrow) need_items_complete(source.catalog);
  return out;
}

void RunSums::need_items_complete(const Catalog& catalog) const {
  for (size_t r = 0; r < plan_.regions.size(); ++r) {
    const Region& region = plan_.regions[r];
    if (!region.is_item()) continue;
    const uint64_t bytes = plan_.payload_bytes(region);
    if (regions_[r].added() != bytes)
      fail(ProblemId::internal,
           {.path = catalog.path, .tensor = std::string(catalog.key(catalog.tensors[plan_.tensors[region.tensor].id]))},
           std::to_string(regions_[r].added()) + " bytes summed", std::to_string(bytes));
  }
}

std::vector<uint32_t> RunSums::archive_crcs(const Catalog& catalog, const OutputFile& file) const {
  std::vector<uint32_t> crcs;
  crcs.reserve(file.payloads.size());
  std::map<uint64_t, std::string_view> heads;  // that records have before their elements, by place
  const auto need = [&](uint64_t added, uint64_t bytes, std::string_view key) {
    if (added == bytes) return;
    fail(ProblemId::internal, {.path = catalog.path, .tensor = std::string(key)}, std::to_string(added) + " bytes summed",
         std::to_string(bytes));
  };
  for (uint64_t record = 0; record < file.payloads.size(); ++record) {
    const ArchivePayload& p = file.payloads[record];
    const uint64_t at = file.archive->payload(record), bytes = file.archive->payload_bytes(record);
    switch (p.kind) {
      case ArchivePayload::Kind::kLiteral: crcs.push_back(crc32(as_bytes(plan_.literals[p.index].bytes))); break;
      case ArchivePayload::Kind::kCopy:
        need(copies_[p.index].added(), bytes, catalog.key_of_item(plan_.copies[p.index].item));
        crcs.push_back(copies_[p.index].value(bytes));
        break;
      case ArchivePayload::Kind::kRegion: {
        const Region& first = plan_.regions[p.index];
        const uint64_t head = first.file_offset - at;
        if (head > 0 && heads.empty())
          for (const Literal& l : plan_.literals)
            if (l.file == first.file) heads.emplace(l.file_offset, l.bytes);
        uint32_t raw = head == 0 ? 0 : crc32_shift(crc32_raw(as_bytes(heads.at(at))), bytes - head);
        uint64_t added = head;
        const auto add = [&](uint32_t r) {
          const Region& region = plan_.regions[r];
          added += regions_[r].added();
          raw ^= crc32_shift(regions_[r].value(0), at + bytes - region.file_offset - plan_.payload_bytes(region));
        };
        const PlanTensor& t = plan_.tensors[first.tensor];
        if (head + plan_.payload_bytes(first) == bytes) add(p.index);
        else  // a rank's parts of a tensor, one after the other
          for (uint32_t r = t.first_region; r < t.first_region + t.region_count; ++r)
            if (plan_.regions[r].file == first.file) add(r);
        need(added, bytes, catalog.key(catalog.tensors[t.id]));
        crcs.push_back(crc32_finish(raw, bytes));
        break;
      }
    }
  }
  return crcs;
}

std::vector<TensorLosses> RunLosses::list(const Catalog& catalog, Fp8Overflow fp8_overflow) const {
  std::vector<TensorLosses> lost;
  for (size_t i = 0; i < by_tensor_.size(); ++i) {
    const CastLosses values = by_tensor_[i].values();
    if (!values.any()) continue;
    const PlanTensor& p = plan_.tensors[i];
    const Tensor& t = catalog.tensors[p.id];
    const DType to = plan_.regions[p.first_region].dtype;
    lost.push_back({std::string(catalog.key(t)), t.dtype, to, overflow_of(to, fp8_overflow), values});
  }
  return lost;
}

}  // namespace dcp
