// Loops over elements: strided copies, byte order, conjugation, dtype conversion. No I/O, no allocation, no errors: callers have checked
// shapes, and no pointer needs alignment. Includes nothing of the project but the dtype table.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "format/dtype.h"

namespace dcp {

// Copies an N-d box of elements of `element_bytes` (1, 2, 4, 8 or 16) each. Strides are in elements and may be anything that stays inside
// the buffers (also 0); dims of equal step are merged and the innermost runs are memcpy where both sides are dense.
void copy_strided(std::byte* to, std::span<const int64_t> to_strides, const std::byte* from, std::span<const int64_t> from_strides,
                  std::span<const int64_t> sizes, unsigned element_bytes);

// Reverses the bytes of each unit of `unit_bytes` (2, 4 or 8) in place.
void swap_bytes(std::byte* data, uint64_t units, unsigned unit_bytes);

// In place, on `elements` elements of `dtype`: the imaginary part's sign; the sign of every component (two's complement for integers).
// What torch's lazy conj and neg bits stand for (Tensor.resolve_conj, resolve_neg).
void conjugate(std::byte* data, uint64_t elements, DType dtype);
void negate(std::byte* data, uint64_t elements, DType dtype);

// As Tensor.copy_ of torch 2.15 between two dtypes: rounding to nearest even, float to integer by truncation, complex to real drops the
// imaginary part, to bool is "not zero". False: there is no such conversion (quantized and packed types).
bool convertible(DType from, DType to);
void convert(std::byte* to, DType to_type, const std::byte* from, DType from_type, uint64_t elements);

}  // namespace dcp
