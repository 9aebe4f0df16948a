// Finds views of a record that together see each element at most once: then its sum can be computed as they are read, and only the gaps
// need an extra read.
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "catalog/box.h"
#include "plan/plan.h"
#include "plan/units.h"

namespace dcp {

// The positions of a view in its record: the first, plus its axes, slowest first. Only size and stride of the axes are used.
struct Positions {
  uint64_t first = 0;
  std::vector<ViewAxis> axes;
  uint64_t count() const;
  uint64_t end() const;  // after the last one
};

// Positions of axes given in any order, with axes merged where possible. `once`: whether no position occurs twice, as far as nesting axes
// can show it.
Positions positions_of(uint64_t first, std::span<const ViewAxis> axes, bool& once);

struct RecordCover {
  std::vector<uint32_t> views;
  std::vector<std::pair<uint64_t, uint64_t>> gaps;  // half-open ranges of positions that no view has
};

// Some of `views` that together have each position in [0, total) at most once, and all of them except some gaps. None, unless that is easy
// to see; interleaved views must have the same strides.
RecordCover cover_of(std::span<const Positions> views, uint64_t total);

// How the CRCs of records with views (catalog/box.h) get checked: by the units, if they see each byte of a record once and not in tiny
// pieces; otherwise by a separate pass.

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
