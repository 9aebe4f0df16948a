// A model without its values: what DeepSpeed ZeRO-3 leaves of a module in each rank's process, and so in a state dict that was not gathered.
#pragma once

#include <optional>

#include "catalog/catalog.h"

namespace dcp {

// Damage to the empty tensors of the first model that has no tensor with an element, whatever they are called, unless one tensor is all there is, or
// another model has values and none of these is called like a parameter (*weight, *bias); or whose parameters are all tensors of shape [0], two or
// more. In DeepSpeed's own files one is enough, and where nothing has such a name, more such tensors than others.
std::optional<Problem> find_empty_model(const Catalog& catalog);

}  // namespace dcp
