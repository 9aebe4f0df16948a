// Bytes of a shape, shared by the reader and the writer of safetensors headers.
#pragma once

#include <cstdint>
#include <span>

#include "base/checked.h"
#include "format/dtype.h"

namespace dcp {

// How many safetensors values one torch element holds, in the last dim.
inline uint64_t values_per_element(DType dtype) { return dtype == DType::float4_e2m1fn_x2 ? 2 : 1; }

// Bytes of a row-major tensor; `shape` is torch's, each dim >= 0.
inline uint64_t bytes_of_shape(DType dtype, std::span<const int64_t> shape, const Place& place) {
  uint64_t bytes = bytes_of(dtype);
  for (const int64_t dim : shape) bytes = mul_or_fail(bytes, static_cast<uint64_t>(dim), place);
  return bytes;
}

}  // namespace dcp
