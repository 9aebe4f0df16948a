// Megatron-Core's shapes. Its distributed optimizer holds tensors flat; it saves them in the shape (pieces on each dim..., elements of a
// piece) and leaves the true shape in Metadata.mcore_data. torch sees the first; --mcore-shapes gives the second.
// Source: megatron/core/dist_checkpointing/strategies/resharding.py, nd_flattened_tensor_reformulated_global_shape.
#pragma once

#include <optional>

#include "catalog/catalog.h"

namespace dcp {

// The shape in mcore_data; nullopt: none is given.
std::optional<Dims> mcore_shape(const Catalog& catalog, TensorId tensor);

// The shape in mcore_data, or the tensor's own where none is given. Throws mcore_shape if the row-major bytes in the one are not the
// row-major bytes in the other: another count of elements, or pieces that would have to be moved.
Dims mcore_view(const Catalog& catalog, TensorId tensor);

}  // namespace dcp
