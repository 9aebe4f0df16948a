// How elements of two tensors differ in value. Elements with the same bytes are equal, NaN or not, whatever the tolerance.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "format/dtype.h"

namespace dcp {

// As in torch.allclose: |a - b| <= absolute + relative * |b|, and NaNs are close to each other if so requested. Computed in double
// precision; for 64-bit integers exactly, except for the product.
struct Tolerance {
  double relative = 0;
  double absolute = 0;
  bool equal_nan = false;
};

// The largest error, and the first element that has it.
struct WorstElement {
  static constexpr uint64_t kNowhere = ~uint64_t{0};
  double error = 0;
  uint64_t index = kNowhere;
  std::array<std::byte, 16> a{}, b{};  // the two elements
  // Whether an element with this error takes its place.
  bool yields_to(double other, uint64_t other_index) const {
    return index == kNowhere || other > error || (other == error && other_index < index);
  }
};

struct ElementDifferences {
  uint64_t changed = 0;                     // elements whose values differ
  uint64_t differing = 0;                   // of those, the ones outside the tolerance
  uint64_t same_value = 0;                  // elements with other bytes but the same value: 0.0 and -0.0, NaNs if they count as equal
  uint64_t non_finite = 0;                  // changed ones with NaN or infinity on either side: they have no error
  uint64_t first = WorstElement::kNowhere;  // of the changed ones
  // For changed, finite elements: |a - b|; and that divided by |b|, where b is not 0.
  WorstElement absolute, relative;

  // Adds another part of the same tensor; indexes count in the same space.
  void add(const ElementDifferences& part);
};

// Whether elements of this dtype are numbers. Others (packed, quantized) can change, but have no error.
bool is_numeric(DType dtype);

// Compares `elements` elements of each. Indexes count from 0.
ElementDifferences compare_elements(const std::byte* a, const std::byte* b, DType dtype, uint64_t elements, const Tolerance& tolerance);

}  // namespace dcp
