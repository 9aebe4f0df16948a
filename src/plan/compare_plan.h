// Two sources whose tensors are read together: the units of one side, which leads, are boxes that are read from the other as well.
#pragma once

#include <cstdint>
#include <span>

#include "plan/plan.h"
#include "plan/units.h"

namespace dcp {

struct TensorPair {
  TensorId lead = 0, follow = 0;  // of the same shape
  DType as{};                     // what both are brought to
};

// Both plans have a tensor for each pair, in order. Units of the leading side see every byte of both; those of the other are passes alone.
struct ComparePlan {
  Plan lead, follow;
  uint64_t box_bytes = 0;      // of the largest box
  uint64_t decoded_bytes = 0;  // of the largest record of the other side that must be decoded; 0: none
  uint64_t bytes_to_read() const { return lead.bytes_to_read + follow.bytes_to_read; }
};

// How much a side asks for to lead: what must be decoded from front to back, or lies crosswise, should.
unsigned leads_by(const SourceFacts& side, TensorId tensor);

ComparePlan plan_compare(const SourceFacts& lead, const SourceFacts& follow, std::span<const TensorPair> pairs, const UnitOptions& options);

// What a worker needs on the side that follows, beside DecodedRecords.
uint64_t follower_bytes(const ComparePlan& plan, const SourceFacts& follow);

}  // namespace dcp
