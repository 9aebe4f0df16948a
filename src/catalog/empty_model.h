// A model without its values: what DeepSpeed ZeRO-3 leaves of a module in each rank's process, and so in a state dict that was not gathered.
#pragma once

#include <optional>

#include "catalog/catalog.h"

namespace dcp {

// Damage to the empty tensors of the first model whose parameters are all empty; buffers keep their values. Parameters are what is called like
// one; where nothing is, more of the floating tensors are empty than not.
std::optional<Problem> find_empty_model(const Catalog& catalog);

}  // namespace dcp
