// Conversion between floats in the vector code of the machine. Private to kernels.
#pragma once

#include "kernels/kernels.h"

namespace dcp {

// Both dtypes are castable, and differ.
void convert_floats(std::byte* to, DType to_type, const std::byte* from, DType from_type, uint64_t elements, const ConvertOptions& options);

}  // namespace dcp
