// The model of a DCP folder, read for its CRCs alone: before it takes the place of the only checkpoint there is, what is read must be what was
// saved.
#pragma once

#include "app/prepare.h"
#include "catalog/select.h"

namespace dcp {

// The model's keys as they are.
SelectOptions model_under_root();
// Throws the first difference, and says the others.
void check_model_sums(const ReadRequest& request, World& world);

}  // namespace dcp
