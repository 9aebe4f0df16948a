// Tensors whose values are split into numbers and scales. A map moves elements, so it must not see them.
#pragma once

#include <span>
#include <string_view>

namespace dcp::maps {

// Throws map_quantized for a tensor that lies beside its scales, under the names that published models use.
void refuse_quantized(std::span<const std::string_view> keys);

}  // namespace dcp::maps
