// How the CRCs of records with views (catalog/views.h) are checked: by the units, if they see each byte of a record once and not in tiny
// pieces; otherwise by a separate pass.
#pragma once

#include <vector>

#include "plan/plan.h"
#include "plan/units.h"

namespace dcp {

class ViewChecks {
 public:
  ViewChecks(Plan& plan, const SourceFacts& source, const UnitOptions& options)
      : plan_(plan), catalog_(source.catalog), resolved_(source.resolved), options_(options) {}

  // Whether a unit of these steps reads its part of the chunk in long runs without gaps, or in one read.
  bool is_readable(const Tensor& t, uint32_t chunk, const std::vector<int64_t>& steps) const;

  // Adds a planned tensor: its items are decoded whole, or its units have these steps.
  void add_decoded(const Tensor& t) {
    add(t, [](uint32_t) { return How::kDecoded; });
  }
  void add(const Tensor& t, const std::vector<int64_t>& steps) {
    add(t, [&](uint32_t chunk) { return is_readable(t, chunk, steps) ? How::kReadable : How::kOther; });
  }
  // Fills checks and summed_at, and adds records that need a pass.
  void finish();

 private:
  enum class How : uint8_t { kDecoded, kReadable, kOther };
  struct Seen {
    ItemId record = 0;
    TensorId tensor = 0;
    uint32_t chunk = 0;
    How how{};
  };
  template <class HowOf>
  void add(const Tensor& t, const HowOf& how) {
    for (uint32_t c = 0; c < t.chunk_count; ++c)
      seen_.push_back({.record = resolved_.views.record[catalog_.item_of(t, c)],
                       .tensor = static_cast<TensorId>(&t - catalog_.tensors.data()),
                       .chunk = c,
                       .how = how(c)});
  }
  ItemId item_of(const Seen& s) const { return catalog_.item_of(catalog_.tensors[s.tensor], s.chunk); }
  void check_record(std::span<const Seen> views);
  bool sum_on_the_way(std::span<const Seen> views, const ItemInfo& info);

  Plan& plan_;
  const Catalog& catalog_;
  const Resolved& resolved_;
  const UnitOptions& options_;
  std::vector<Seen> seen_;
};

}  // namespace dcp
