// What workers of one run of a plan count, in any order: CRC sums (of source records, of output payloads, of copied ranges), and the losses of
// casts.
#pragma once

#include <atomic>
#include <string>
#include <vector>

#include "base/sums.h"
#include "items/resolve.h"
#include "kernels/kernels.h"
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

// The losses of one run's casts, by tensor. Workers add in any order.

// Losses of one tensor, if there were any.
struct TensorLosses {
  std::string key;  // of the source
  DType from{}, to{};
  Overflow overflow{};  // what values that were too large became
  CastLosses values;
};
// "float32 to float16"
inline std::string from_to(const TensorLosses& t) { return std::string(facts_of(t.from).name) + " to " + std::string(facts_of(t.to).name); }

class RunLosses {
 public:
  explicit RunLosses(const Plan& plan) : plan_(plan), by_tensor_(plan.tensors.size()) {}

  void add(uint32_t tensor, const CastLosses& losses) {  // in Plan::tensors
    if (!losses.any()) return;
    Counter& c = by_tensor_[tensor];
    c.overflowed.fetch_add(losses.overflowed, std::memory_order_relaxed);
    c.zeroed.fetch_add(losses.zeroed, std::memory_order_relaxed);
    c.not_finite.fetch_add(losses.not_finite, std::memory_order_relaxed);
  }
  // By Plan::tensors, for joining the counts of several processes.
  std::vector<CastLosses> counts() const {
    std::vector<CastLosses> all(by_tensor_.size());
    for (size_t t = 0; t < all.size(); ++t) all[t] = by_tensor_[t].values();
    return all;
  }
  void set(const std::vector<CastLosses>& counts) {
    for (size_t t = 0; t < by_tensor_.size(); ++t) {
      by_tensor_[t].overflowed = counts.at(t).overflowed;
      by_tensor_[t].zeroed = counts[t].zeroed;
      by_tensor_[t].not_finite = counts[t].not_finite;
    }
  }
  // In the plan's order.
  std::vector<TensorLosses> list(const Catalog& catalog, Fp8Overflow fp8_overflow) const;

 private:
  struct Counter {
    std::atomic<uint64_t> overflowed{0}, zeroed{0}, not_finite{0};
    CastLosses values() const { return {.overflowed = overflowed, .zeroed = zeroed, .not_finite = not_finite}; }
  };
  const Plan& plan_;
  std::vector<Counter> by_tensor_;
};

}  // namespace dcp
