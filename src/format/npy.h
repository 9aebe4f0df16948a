// The header of a numpy .npy file, version 1.0: https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "format/dtype.h"

namespace dcp {

// numpy's type for it ("<f4"); if there is none, the unsigned integer of the same size.
std::string_view npy_type(DType dtype);
// Whether numpy has this dtype; values of others are shown as their bits.
bool is_numpy_dtype(DType dtype);

// Everything before the elements, which follow row-major and little-endian at a multiple of 64 bytes.
std::string npy_header(DType dtype, std::span<const int64_t> shape);

}  // namespace dcp
