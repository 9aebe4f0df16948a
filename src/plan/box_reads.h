// Reads boxes of tensors, each into a file of its own: what reads into memory is planned so.
#pragma once

#include <span>
#include <vector>

#include "plan/plan.h"
#include "plan/units.h"

namespace dcp {

struct BoxRead {
  TensorId tensor = 0;
  std::vector<int64_t> offsets, sizes;
};

// Whether plan_boxes() can read the tensor: none of its chunks must be decoded from front to back.
bool can_read_boxes(const SourceFacts& source, const Tensor& tensor);

// The n-th file gets the n-th box, row-major, in the tensor's dtype. Units read only what the boxes need, each byte once, however many boxes
// need it, in the order of the files; those of neighbouring small pieces are one unit. A record is checked if the boxes cover it; those
// of a derived catalog are not. The items that hold the boxes must be resolved.
Plan plan_boxes(const SourceFacts& source, std::span<const BoxRead> boxes, const UnitOptions& options);

}  // namespace dcp
