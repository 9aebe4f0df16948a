// Plans for two sources whose tensors are read together: one side leads, and the boxes of its units are read from the other side as well.
#pragma once

#include <cstdint>
#include <span>

#include "plan/plan.h"
#include "plan/units.h"

namespace dcp {

struct TensorPair {
  TensorId lead = 0, follow = 0;  // of the same shape
  DType as{};                     // the dtype that both are converted to
};

// Both plans have a tensor for each pair, in order. Units of the leading side see every byte of both; the other side's units are only
// passes.
struct ComparePlan {
  Plan lead, follow;
  uint64_t box_bytes = 0;      // of the largest box
  uint64_t decoded_bytes = 0;  // of the largest record of the other side that must be decoded; 0: none
  uint64_t bytes_to_read() const { return lead.bytes_to_read + follow.bytes_to_read; }
};

// How strongly a side should lead: one that must be decoded from front to back, or is column-major, should.
unsigned leads_by(const SourceFacts& side, TensorId tensor);

ComparePlan plan_compare(const SourceFacts& lead, const SourceFacts& follow, std::span<const TensorPair> pairs, const UnitOptions& options);

// Memory that a worker needs for the following side, in addition to DecodedRecords.
uint64_t follower_bytes(const ComparePlan& plan, const SourceFacts& follow);

}  // namespace dcp
