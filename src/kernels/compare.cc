#include "kernels/compare.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "kernels/kernels.h"

namespace dcp {
namespace {

constexpr uint64_t kBlock = 512;  // elements: the doubles of both sides stay in the first-level cache
constexpr size_t kMaxBytes = 16;

// A pair of elements as numbers, for the tolerance.
struct Pair {
  double distance = 0;  // |a - b|
  double size = 0;      // |b|
  bool equal = false;
  bool finite = true;
  bool both_nan = false;
};

void take(WorstElement& worst, double error, uint64_t index, const std::byte* a, const std::byte* b, size_t bytes) {
  if (!worst.yields_to(error, index)) return;
  worst.error = error;
  worst.index = index;
  std::copy_n(a, bytes, worst.a.begin());
  std::copy_n(b, bytes, worst.b.begin());
}

void count(ElementDifferences& out, const Pair& p, const Tolerance& tolerance, uint64_t index, const std::byte* a, const std::byte* b,
           size_t bytes) {
  if (p.equal || (p.both_nan && tolerance.equal_nan)) {
    ++out.same_value;
    return;
  }
  if (out.changed++ == 0) out.first = index;
  if (!p.finite) {
    ++out.differing;
    ++out.non_finite;
    return;
  }
  if (!(std::isfinite(p.distance) && p.distance <= tolerance.absolute + tolerance.relative * p.size)) ++out.differing;
  take(out.absolute, p.distance, index, a, b, bytes);
  if (p.size > 0) take(out.relative, p.distance / p.size, index, a, b, bytes);
}

Pair real_pair(double a, double b) {
  return {.distance = std::abs(a - b),
          .size = std::abs(b),
          .equal = a == b,
          .finite = std::isfinite(a) && std::isfinite(b),
          .both_nan = std::isnan(a) && std::isnan(b)};
}

// As in torch, NaN in either part makes the number NaN.
Pair complex_pair(const double* a, const double* b) {
  const auto is_nan = [](const double* c) { return std::isnan(c[0]) || std::isnan(c[1]); };
  const auto is_finite = [](const double* c) { return std::isfinite(c[0]) && std::isfinite(c[1]); };
  return {.distance = std::hypot(a[0] - b[0], a[1] - b[1]),
          .size = std::hypot(b[0], b[1]),
          .equal = a[0] == b[0] && a[1] == b[1],
          .finite = is_finite(a) && is_finite(b),
          .both_nan = is_nan(a) && is_nan(b)};
}

template <class Int>
Pair wide_pair(const std::byte* a, const std::byte* b) {
  Int x, y;
  std::memcpy(&x, a, sizeof x);
  std::memcpy(&y, b, sizeof y);
  const uint64_t distance =
      x > y ? static_cast<uint64_t>(x) - static_cast<uint64_t>(y) : static_cast<uint64_t>(y) - static_cast<uint64_t>(x);
  return {.distance = static_cast<double>(distance), .size = std::abs(static_cast<double>(y)), .equal = x == y};
}

enum class Way : uint8_t { kReal, kComplex, kInt64, kUint64, kBytes };

Way way_of(DType dtype) {
  if (dtype == DType::int64) return Way::kInt64;
  if (dtype == DType::uint64) return Way::kUint64;
  if (!is_numeric(dtype)) return Way::kBytes;
  return facts_of(dtype).kind == DTypeKind::kComplex ? Way::kComplex : Way::kReal;
}

// Calls fn(i) for the elements whose bytes are not the same.
template <class Fn>
void each_changed(const std::byte* a, const std::byte* b, size_t bytes, uint64_t elements, const Fn& fn) {
  const auto visit = [&]<size_t n>() {
    for (uint64_t i = 0; i < elements; ++i)
      if (std::memcmp(a + i * n, b + i * n, n) != 0) fn(i);
  };
  switch (bytes) {
    case 1: return visit.template operator()<1>();
    case 2: return visit.template operator()<2>();
    case 4: return visit.template operator()<4>();
    case 8: return visit.template operator()<8>();
    default: return visit.template operator()<kMaxBytes>();
  }
}

}  // namespace

void ElementDifferences::add(const ElementDifferences& part) {
  changed += part.changed;
  differing += part.differing;
  same_value += part.same_value;
  non_finite += part.non_finite;
  first = std::min(first, part.first);
  const auto join = [](WorstElement& to, const WorstElement& from) {
    if (from.index != WorstElement::kNowhere && to.yields_to(from.error, from.index)) to = from;
  };
  join(absolute, part.absolute);
  join(relative, part.relative);
}

bool is_numeric(DType dtype) { return convertible(dtype, DType::float64); }

ElementDifferences compare_elements(const std::byte* a, const std::byte* b, DType dtype, uint64_t elements, const Tolerance& tolerance) {
  ElementDifferences out;
  const size_t bytes = bytes_of(dtype);
  const Way way = way_of(dtype);
  const DType part = component_of(dtype);
  const bool as_doubles = way == Way::kReal || way == Way::kComplex;
  const uint64_t parts = way == Way::kComplex ? 2 : 1;
  double x[2 * kBlock], y[2 * kBlock];
  for (uint64_t begin = 0; begin < elements; begin += kBlock) {
    const uint64_t n = std::min(kBlock, elements - begin);
    const std::byte *from_a = a + begin * bytes, *from_b = b + begin * bytes;
    if (std::memcmp(from_a, from_b, n * bytes) == 0) continue;
    if (as_doubles) {
      convert(reinterpret_cast<std::byte*>(x), DType::float64, from_a, part, n * parts);
      convert(reinterpret_cast<std::byte*>(y), DType::float64, from_b, part, n * parts);
    }
    each_changed(from_a, from_b, bytes, n, [&](uint64_t i) {
      const std::byte *at_a = from_a + i * bytes, *at_b = from_b + i * bytes;
      const auto pair = [&]() -> Pair {
        switch (way) {
          case Way::kReal: return real_pair(x[i], y[i]);
          case Way::kComplex: return complex_pair(x + 2 * i, y + 2 * i);
          case Way::kInt64: return wide_pair<int64_t>(at_a, at_b);
          case Way::kUint64: return wide_pair<uint64_t>(at_a, at_b);
          case Way::kBytes: return {.finite = false};
        }
        return {};
      };
      count(out, pair(), tolerance, begin + i, at_a, at_b, bytes);
    });
  }
  if (way == Way::kBytes) out.non_finite = 0;
  return out;
}

}  // namespace dcp
