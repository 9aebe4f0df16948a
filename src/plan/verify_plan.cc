#include "plan/verify_plan.h"

#include <algorithm>
#include <map>
#include <string>
#include <tuple>

#include "base/checked.h"
#include "catalog/cover.h"
#include "kernels/kernels.h"
#include "plan/layout.h"

namespace dcp {
namespace {

// An evenly distributed number that depends only on a record's place (splitmix64 over FNV-1a of the file's name).
uint64_t lot_of(const Catalog& catalog, const ItemRecord& r) {
  const Item item = catalog.item_of(r);
  uint64_t hash = 0xCBF29CE484222325u;
  for (const char c : catalog.file_name(item.file)) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001B3u;
  hash += item.offset * 0x9E3779B97F4A7C15u + r.offset;
  hash = (hash ^ (hash >> 30)) * 0xBF58476D1CE4E5B9u;
  hash = (hash ^ (hash >> 27)) * 0x94D049BB133111EBu;
  return hash ^ (hash >> 31);
}

class Planner {
 public:
  Planner(const SourceFacts& source, const VerifyPlanOptions& options)
      : catalog_(source.catalog), resolved_(source.resolved), options_(options), records_(source.resolved.records) {
    // kNone + 1 is 0: the used item comes before other ranks' copies.
    std::ranges::sort(records_, {}, [](const ItemRecord& r) { return std::tuple(r.item, r.duplicate + 1, r.offset); });
    taken_.resize(records_.size(), false);
  }

  VerifyPlan run() {
    for (const Tensor& t : catalog_.tensors) stored_dtypes(t);
    if (options_.digests != nullptr)
      for (const Entry& e : options_.digests->entries) digest(e);
    rest();
    cut_into_units(out_.plan, {catalog_, resolved_}, options_.units);
    return std::move(out_);
  }

 private:
  // Reports stored dtypes that dcp.load would convert silently.
  void stored_dtypes(const Tensor& t) {
    for (uint32_t c = 0; t.dtype_known && c < t.chunk_count; ++c) {
      const ItemId item = catalog_.item_of(t, c);
      const ItemInfo& info = resolved_.items[item];
      if (!info.resolved || info.opaque || info.dtype == t.dtype) continue;
      const bool can = convertible(info.dtype, t.dtype);
      Problem p = make_problem(can ? ProblemId::dtype_differs : ProblemId::dtype_not_convertible, catalog_.place_of(item, catalog_.key(t)),
                               std::string(facts_of(info.dtype).name), std::string(facts_of(t.dtype).name));
      p.severity = can ? Severity::kWarning : Severity::kDamage;
      out_.findings.push_back(std::move(p));
      return;
    }
  }

  // The records of an item, as indices.
  std::pair<size_t, size_t> records_of(ItemId item) const {
    item = resolved_.first_of(item);
    const auto begin = std::ranges::lower_bound(records_, item, {}, &ItemRecord::item);
    auto end = begin;
    while (end != records_.end() && end->item == item && end->duplicate == kNone) ++end;
    return {static_cast<size_t>(begin - records_.begin()), static_cast<size_t>(end - records_.begin())};
  }

  void digest(const Entry& e) {
    const ItemId item = e.is_blob() ? resolved_.first_of(catalog_.item_of(e.blob())) : kNone;
    const auto same = file_of_.find(item);
    if (same != file_of_.end()) return out_.digests.push_back({.entry = e, .file = same->second, .is_object = true});
    const bool done = e.is_blob() ? object({item}) : tensor(e);
    if (!done) return out_.not_digested.push_back(e);
    out_.plan.files.back().name = std::string(e.key);
    const auto file = narrow<uint32_t>(out_.plan.files.size() - 1);
    if (e.is_blob()) file_of_.emplace(item, file);
    out_.digests.push_back({.entry = e, .file = file, .is_object = out_.plan.regions.empty() || out_.plan.regions.back().file != file});
  }

  uint32_t add_file(uint64_t bytes) {
    out_.plan.files.push_back({.name = {}, .bytes = bytes, .archive = std::nullopt, .payloads = {}});
    return narrow<uint32_t>(out_.plan.files.size() - 1);
  }

  bool tensor(const Entry& e) {
    const Tensor& t = catalog_.tensors[e.tensor()];
    std::vector<ItemId> items;
    bool opaque = false;
    for (uint32_t c = 0; c < t.chunk_count; ++c) {
      if (volume(catalog_.box(t, c).sizes) == 0) continue;
      const ItemId item = catalog_.item_of(t, c);
      const ItemInfo& info = resolved_.items[item];
      if (!info.resolved || (!info.opaque && (!t.dtype_known || !convertible(info.dtype, t.dtype)))) return false;
      opaque = opaque || info.opaque;
      items.push_back(item);
    }
    if (opaque) return object(items);
    if (!t.dtype_known || (!resolved_.views.any() && check_cover(catalog_, t))) return false;
    for (const ItemId item : items) take_storage(item);
    Plan& plan = out_.plan;
    plan.regions.push_back({.box_at = add_whole_box(plan, catalog_.dims(t)),
                            .tensor = narrow<uint32_t>(plan.tensors.size()),
                            .file = add_file(catalog_.tensor_bytes(t)),
                            .dtype = t.dtype,
                            .rank = t.rank});
    plan.tensors.push_back({.id = e.tensor(), .first_region = narrow<uint32_t>(plan.regions.size() - 1), .region_count = 1});
    return true;
  }

  // Marks the record of a storage that the tensor's own units check, or a pass that cut_into_units adds.
  void take_storage(ItemId item) {
    const auto [first, end] = records_of(item);
    for (size_t i = first; i < end; ++i)
      if (records_[i].offset == resolved_.items[item].record) taken_[i] = true;
  }

  // Objects have bytes of their own only in checkpoints with metadata.
  bool object(const std::vector<ItemId>& items) {
    if (!catalog_.traits().has_metadata) return false;
    uint64_t bytes = 0;
    for (const ItemId item : items) {
      if (!resolved_.items[item].resolved || (catalog_.items[item].transforms != 0 && !resolved_.blobs.contains(resolved_.first_of(item))))
        return false;
      const auto [first, end] = records_of(item);
      for (size_t i = first; i < end; ++i) bytes += records_[i].bytes;
    }
    const uint32_t file = add_file(bytes);
    uint64_t at = 0;
    for (const ItemId item : items) {
      const auto [first, end] = records_of(item);
      for (size_t i = first; i < end; ++i) {
        const ItemRecord& r = records_[i];
        taken_[i] = true;
        out_.plan.copies.push_back({.item = item,
                                    .packed = r.packed,
                                    .from_decoded = catalog_.items[item].transforms != 0,
                                    .source_offset = r.offset,
                                    .bytes = r.bytes,
                                    .file = file,
                                    .file_offset = at});
        add_check(out_.plan, {.at = 0, .bytes = r.bytes, .crc = r.crc, .has_crc = r.has_crc});
        at += r.bytes;
      }
    }
    return true;
  }

  // Adds records that are read only for their CRC.
  void rest() {
    std::vector<ItemRecord> data;
    out_.data_records = resolved_.data_records;
    out_.data_bytes = resolved_.data_bytes;
    for (size_t i = 0; i < records_.size(); ++i) {
      const ItemRecord& r = records_[i];
      out_.data_records += r.is_data;
      out_.data_bytes += r.is_data ? r.bytes : 0;
      if (taken_[i]) continue;
      if (r.is_data) data.push_back(r);
      else out_.plan.records.push_back(r);
    }
    sample(data);
    out_.plan.records.insert(out_.plan.records.end(), data.begin(), data.end());
  }

  // Keeps a pseudo-random part of the records that has at least the wanted share of the bytes.
  void sample(std::vector<ItemRecord>& data) {
    if (options_.data && options_.sample_percent >= 100) return;
    uint64_t all = 0, kept = 0;
    for (const ItemRecord& r : data) all += r.bytes;
    size_t keep = 0;
    if (options_.data) {
      std::ranges::stable_sort(data, {}, [&](const ItemRecord& r) { return lot_of(catalog_, r); });
      const double wanted = static_cast<double>(all) * options_.sample_percent / 100;
      while (keep < data.size() && static_cast<double>(kept) < wanted) kept += data[keep++].bytes;
    }
    out_.left_out_records = data.size() - keep;
    out_.left_out_bytes = all - kept;
    data.resize(keep);
  }

  const Catalog& catalog_;
  const Resolved& resolved_;
  const VerifyPlanOptions& options_;
  std::vector<ItemRecord> records_;     // by item, copies of other ranks after it
  std::vector<bool> taken_;             // of records_: checked on the way to a digest
  std::map<ItemId, uint32_t> file_of_;  // of byte items
  VerifyPlan out_;
};

}  // namespace

VerifyPlan plan_verify(const SourceFacts& source, const VerifyPlanOptions& options) { return Planner(source, options).run(); }

}  // namespace dcp
