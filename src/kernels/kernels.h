// Loops over elements: strided copies, byte order, conjugation, dtype conversion. No I/O, no allocation, no errors: callers have checked
// shapes, and no pointer needs alignment. Includes nothing from other rooms except the dtype table.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "format/dtype.h"

namespace dcp {

// The instruction sets that the float codecs are compiled for. Minimum features of the machine; on x86-64, kAvx2 is x86-64-v3 and kAvx512 is x86-64-v4.
enum class Isa : uint8_t { kBaseline, kAvx2, kAvx512 };
// The best one that this processor and operating system can run.
Isa best_isa();
namespace codecs {
struct Table;
}
// `isa` must not be above best_isa().
const codecs::Table& codecs_for(Isa isa);

// Copies an N-d box of elements of `element_bytes` (1, 2, 4, 8 or 16) each. Strides count elements and may be anything that stays inside
// the buffers (even 0); dims of equal step are merged, and innermost runs that are dense on both sides use memcpy.
void copy_strided(std::byte* to, std::span<const int64_t> to_strides, const std::byte* from, std::span<const int64_t> from_strides,
                  std::span<const int64_t> sizes, unsigned element_bytes);

// Reverses the bytes of each unit of `unit_bytes` (2, 4 or 8) in place.
void swap_bytes(std::byte* data, uint64_t units, unsigned unit_bytes);

// Both work in place on `elements` elements of `dtype`. conjugate() flips the imaginary part's sign, negate() the sign of every component
// (two's complement for integers). torch's lazy conj and neg bits stand for them (Tensor.resolve_conj, resolve_neg).
void conjugate(std::byte* data, uint64_t elements, DType dtype);
void negate(std::byte* data, uint64_t elements, DType dtype);

// float8_e4m3fn has no infinity: what becomes of numbers beyond 448. torch 2.15 saturates, torch 2.11 gave NaN.
enum class Fp8Overflow : uint8_t { kSaturate, kNan };

struct ConvertOptions {
  Fp8Overflow fp8_overflow = Fp8Overflow::kSaturate;
  Isa isa = best_isa();
};

// Whether convert() converts between two dtypes; not if one is quantized or packed. It works as Tensor.copy_ does in torch 2.15: it rounds
// to nearest even, truncates floats to integers, drops the imaginary part for a real dtype, and "not zero" is true.
bool convertible(DType from, DType to);
// The dtype of a complex element's two components; any other dtype itself.
DType component_of(DType dtype);
void convert(std::byte* to, DType to_type, const std::byte* from, DType from_type, uint64_t elements, const ConvertOptions& options = {});

// Floats that a narrower dtype cannot keep, and those that were no numbers before.
struct CastLosses {
  uint64_t overflowed = 0;  // too large for `to`, and became what overflow_of() says
  uint64_t zeroed = 0;      // not zero before
  uint64_t not_finite = 0;  // NaN and infinity, of dtypes but the fnuz ones; where `to` keeps all numbers they are not counted
  bool any() const { return overflowed + zeroed + not_finite > 0; }
  CastLosses& operator+=(const CastLosses& more);
};
enum class Overflow : uint8_t { kInfinity, kNan, kLargest };
Overflow overflow_of(DType to, Fp8Overflow fp8_overflow);

// Whether cast() counts losses of this dtype: only for the floats that torch computes with.
bool castable(DType dtype);
// convert() between two castable dtypes, which also counts what is lost.
CastLosses cast(std::byte* to, DType to_type, const std::byte* from, DType from_type, uint64_t elements,
                const ConvertOptions& options = {});

}  // namespace dcp
