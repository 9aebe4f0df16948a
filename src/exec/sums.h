// The CRC sums of one run of a plan: of source records, of output payloads, of copied ranges. Any worker adds, in any order.
#pragma once

#include <vector>

#include "base/sums.h"
#include "items/resolve.h"
#include "plan/plan.h"

namespace dcp {

// A record of a transformed item has no position in the file, so its place is the whole item.
Place place_of(const Catalog& catalog, const ItemRecord& record);

// The result of comparing records with the CRCs that their writer stored.
struct Compared {
  std::vector<Problem> damage;  // every mismatch: tensors in metadata order, then copies, then records of passes
  uint64_t checked = 0;         // records
  uint64_t bytes = 0;           // of them
  uint64_t without_crc = 0;     // read, but their writer computed none
};

class RunSums {
 public:
  RunSums(const Plan& plan, const Catalog& catalog)
      : plan_(plan),
        items_(catalog.items.size()),
        regions_(plan.regions.size()),
        copies_(plan.copies.size()),
        copy_checks_(plan.copy_checks.size()),
        records_(plan.records.size()) {}
  // Memory that this takes for a plan.
  static uint64_t bytes(const Plan& plan) {
    return (plan.checks.size() + plan.regions.size() + plan.copies.size() + plan.copy_checks.size() + plan.records.size()) *
           sizeof(Crc32Sum);
  }

  bool wants_item(ItemId item) const { return plan_.checks[item] == CrcCheck::kFromUnits; }
  bool wants_region(uint32_t region) const { return plan_.regions[region].is_item() || plan_.files[plan_.regions[region].file].archive; }
  bool wants_copy(uint32_t copy) const { return plan_.files[plan_.copies[copy].file].archive.has_value(); }
  void add_item(ItemId item, uint32_t raw, uint64_t bytes, uint64_t after) { items_[plan_.sum_of(item)].add(raw, bytes, after); }
  // Returns the bytes added to the region so far.
  uint64_t add_region(uint32_t region, uint32_t raw, uint64_t bytes, uint64_t after) { return regions_[region].add(raw, bytes, after); }
  uint32_t region_crc(uint32_t region, uint64_t total_bytes) const { return regions_[region].value(total_bytes); }
  void add_copy(uint32_t copy, uint32_t raw, uint64_t bytes, uint64_t after) { copies_[copy].add(raw, bytes, after); }
  void add_copy_check(uint32_t check, uint32_t raw, uint64_t bytes, uint64_t after) { copy_checks_[check].add(raw, bytes, after); }
  void add_record(uint32_t record, uint32_t raw, uint64_t bytes, uint64_t after) { records_[record].add(raw, bytes, after); }

  // All sums in a fixed order, for joining those of several processes: registers are XORed, bytes added.
  struct Part {
    uint64_t bytes = 0;
    uint32_t raw = 0;
  };
  std::vector<Part> parts() const;
  void set(const std::vector<Part>& parts);

  // With kThrow, throws `internal` if a sum is incomplete, because a byte that the planner lost must not go unnoticed. With kCollect, units
  // may have failed, so such a record is skipped.
  // Items whose heads were predicted are proven, so that their CRCs are known.
  Compared compare(const Source& source, Faults faults) const;
  // By record of an output archive.
  std::vector<uint32_t> archive_crcs(const Catalog& catalog, const OutputFile& file) const;

 private:
  void need_items_complete(const Catalog& catalog) const;
  const Plan& plan_;
  std::vector<Crc32Sum> items_;
  std::vector<Crc32Sum> regions_;
  std::vector<Crc32Sum> copies_;
  std::vector<Crc32Sum> copy_checks_;
  std::vector<Crc32Sum> records_;
};

}  // namespace dcp
