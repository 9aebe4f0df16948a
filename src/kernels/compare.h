// How elements of two tensors differ in value. An element whose bytes are the same is the same, NaN or not, whatever the tolerance.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "format/dtype.h"

namespace dcp {

// As torch.allclose has it: |a - b| <= absolute + relative * |b|, and a NaN is close to a NaN where it says so. Computed in double
// precision, of 64-bit integers exactly but for the product.
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
  // Whether an error of the element takes its place.
  bool yields_to(double other, uint64_t other_index) const {
    return index == kNowhere || other > error || (other == error && other_index < index);
  }
};

struct ElementDifferences {
  uint64_t changed = 0;                     // elements of another value
  uint64_t differing = 0;                   // those of them that the tolerance does not cover
  uint64_t same_value = 0;                  // elements of other bytes and the same value: 0.0 and -0.0, two NaNs where they are equal
  uint64_t non_finite = 0;                  // changed ones of which either is NaN or infinite: they have no error
  uint64_t first = WorstElement::kNowhere;  // of the changed ones
  // Of changed and finite elements: |a - b|; and that over |b|, where b is not 0.
  WorstElement absolute, relative;

  // Those of another part of the same tensor; indexes are of the same space.
  void add(const ElementDifferences& part);
};

// Whether elements of this dtype are numbers. Others (packed, quantized) change, but not by so much.
bool is_numeric(DType dtype);

// Of `elements` elements each. Indexes count from 0.
ElementDifferences compare_elements(const std::byte* a, const std::byte* b, DType dtype, uint64_t elements, const Tolerance& tolerance);

}  // namespace dcp
