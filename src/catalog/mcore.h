// Megatron-Core's shapes. Its distributed optimizer holds tensors flat: it saves them in the shape (pieces on each dim..., elements of a
// piece) and records the true shape in Metadata.mcore_data. torch sees the former; a setting selects the latter. Source:
// megatron/core/dist_checkpointing/strategies/resharding.py, nd_flattened_tensor_reformulated_global_shape.
#pragma once

#include <optional>

#include "catalog/catalog.h"

namespace dcp {

// The shape in mcore_data; nullopt: there is none.
std::optional<Dims> mcore_shape(const Catalog& catalog, TensorId tensor);

// The shape in mcore_data, or the tensor's own if there is none. Throws mcore_shape unless the row-major bytes are the same in both:
// another number of elements, or pieces that would have to move.
Dims mcore_view(const Catalog& catalog, TensorId tensor);

}  // namespace dcp
