// The release of torch that an output is written for, and why it is later than the default.
#pragma once

#include <vector>

#include "plan/dcp_layout.h"

namespace dcp {

struct TorchNeeded {
  unsigned version = 0;
  std::vector<KeyNote> raised_by;
};
// Throws dtype_needs_torch.
TorchNeeded torch_for(const Catalog& catalog, const Selection& selection, const TorchTarget& target);

}  // namespace dcp
