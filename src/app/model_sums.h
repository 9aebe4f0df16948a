// Checks the CRCs of the model in a DCP folder before it replaces the only copy of a checkpoint.
#pragma once

#include "app/prepare.h"
#include "select/select.h"

namespace dcp {

// Selects the model, without renaming its keys.
SelectOptions model_under_root();
// Throws the first mismatch, and warns of the others.
void check_model_sums(const ReadRequest& request, World& world);

}  // namespace dcp
