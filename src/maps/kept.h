// Tensors that a model's family keeps in float32: routing, for one, depends on bits that bfloat16 has not.
#pragma once

#include <functional>
#include <set>
#include <string>
#include <string_view>

#include "format/dtype.h"
#include "maps/model_map.h"

namespace dcp::maps {

// Whether a tensor of this name, published or in memory, below any root, stays in float32 when the model gets a narrower dtype. Empty: none does.
using KeepsFloat32 = std::function<bool(std::string_view)>;

// What the `keep` lines of a map say for this dtype.
KeepsFloat32 kept_in_float32(const ModelMap& map, DType as);

// And these names, below any root.
KeepsFloat32 kept_too(KeepsFloat32 keeps, std::set<std::string> names);

}  // namespace dcp::maps
