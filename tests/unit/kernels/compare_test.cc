#include "kernels/compare.h"

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <cmath>
#include <complex>
#include <cstring>
#include <limits>
#include <random>
#include <span>
#include <vector>

#include "kernels/kernels.h"

using namespace dcp;

namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN(), kInf = std::numeric_limits<float>::infinity();

template <class T>
ElementDifferences compared(const std::vector<T>& a, const std::vector<T>& b, DType dtype, const Tolerance& tolerance = {}) {
  return compare_elements(std::as_bytes(std::span(a)).data(), std::as_bytes(std::span(b)).data(), dtype, a.size(), tolerance);
}

}  // namespace

TEST_CASE("elements of the same bytes are the same, NaNs too; -0.0 is 0.0") {
  const auto same = compared<float>({1, kNan, kInf, 0.0f}, {1, kNan, kInf, -0.0f}, DType::float32);
  CHECK(same.changed == 0);
  CHECK(same.differing == 0);
  CHECK(same.same_value == 1);
}

TEST_CASE("a NaN is another value than any number, and than another NaN unless that is asked for") {
  const float other = -kNan;
  const std::vector<float> a{kNan, kNan, 1}, b{other, 1, kNan};
  const auto strict = compared(a, b, DType::float32);
  CHECK(strict.changed == 3);
  CHECK(strict.non_finite == 3);
  CHECK(strict.absolute.index == WorstElement::kNowhere);
  const auto lax = compared(a, b, DType::float32, {.equal_nan = true});
  CHECK(lax.differing == 2);
  CHECK(lax.same_value == 1);
}

TEST_CASE("infinities are never close, and have no error") {
  const auto found = compared<float>({kInf, kInf, 5}, {-kInf, 1, kInf}, DType::float32, {.relative = 1, .absolute = 1e30});
  CHECK(found.differing == 3);
  CHECK(found.non_finite == 3);
}

TEST_CASE("the largest error is that of the first element that has it, relative ones leave zeros out") {
  const auto found = compared<float>({1, 3, 5, 7, 0.5f}, {1, 2, 5, 8, 0}, DType::float32);
  CHECK(found.changed == 3);
  CHECK(found.first == 1);
  CHECK(found.absolute.error == 1);
  CHECK(found.absolute.index == 1);
  CHECK(found.relative.error == 0.5);
  CHECK(found.relative.index == 1);
  float b = 0;
  std::memcpy(&b, found.absolute.b.data(), sizeof b);
  CHECK(b == 2);
}

TEST_CASE("an error may be larger than any number") {
  const double most = std::numeric_limits<double>::max();
  const auto found = compared<double>({most}, {-most}, DType::float64, {.relative = 10});
  CHECK(found.differing == 1);
  CHECK(found.non_finite == 0);
  CHECK(std::isinf(found.absolute.error));
}

TEST_CASE("integers of 64 bits are compared exactly") {
  constexpr int64_t kBig = int64_t{1} << 60;
  const auto found = compared<int64_t>({kBig, kBig, INT64_MIN}, {kBig + 1, kBig, INT64_MAX}, DType::int64, {.absolute = 1});
  CHECK(found.changed == 2);
  CHECK(found.differing == 1);
  CHECK(found.absolute.error == 18446744073709551615.0);
  CHECK(found.absolute.index == 2);
  const auto natural = compared<uint64_t>({UINT64_MAX}, {UINT64_MAX - 1}, DType::uint64);
  CHECK(natural.changed == 1);
  CHECK(natural.absolute.error == 1);
}

TEST_CASE("complex numbers differ by the length of their difference") {
  using C = std::complex<float>;
  const auto found = compared<C>({C(0, 0), C(1, kNan)}, {C(3, 4), C(1, 2)}, DType::complex64);
  CHECK(found.differing == 2);
  CHECK(found.absolute.error == 5);
  CHECK(found.non_finite == 1);
}

TEST_CASE("what is no number changes without an error") {
  const auto found = compared<uint8_t>({1, 2, 3}, {1, 9, 8}, DType::float4_e2m1fn_x2, {.absolute = 100});
  CHECK_FALSE(is_numeric(DType::float4_e2m1fn_x2));
  CHECK(found.differing == 2);
  CHECK(found.non_finite == 0);
  CHECK(found.first == 1);
  CHECK(found.absolute.index == WorstElement::kNowhere);
}

TEST_CASE("random floats of every dtype: counts and errors are those of plain arithmetic, in one part and in several") {
  std::mt19937 rng(5);
  for (const DType dtype : {DType::float64, DType::float32, DType::float16, DType::bfloat16, DType::float8_e4m3fn, DType::float8_e5m2,
                            DType::float8_e4m3fnuz, DType::int32, DType::int8, DType::uint16, DType::bool_}) {
    const uint64_t count = 1 + rng() % 3000, bytes = bytes_of(dtype);
    std::vector<std::byte> a(count * bytes), b;
    for (std::byte& x : a) x = static_cast<std::byte>(dtype == DType::bool_ ? rng() % 2 : rng());
    b = a;
    for (int n = 0; n < 40; ++n) b[rng() % b.size()] = static_cast<std::byte>(dtype == DType::bool_ ? rng() % 2 : rng());
    std::vector<double> x(count), y(count);
    convert(reinterpret_cast<std::byte*>(x.data()), DType::float64, a.data(), dtype, count);
    convert(reinterpret_cast<std::byte*>(y.data()), DType::float64, b.data(), dtype, count);
    const Tolerance tolerance{.relative = 0.01, .absolute = 0.5};
    uint64_t changed = 0, differing = 0, worst = WorstElement::kNowhere;
    double error = -1;
    for (uint64_t i = 0; i < count; ++i) {
      if (std::memcmp(a.data() + i * bytes, b.data() + i * bytes, bytes) == 0 || x[i] == y[i]) continue;
      ++changed;
      const bool finite = std::isfinite(x[i]) && std::isfinite(y[i]);
      differing += !(finite && std::abs(x[i] - y[i]) <= 0.5 + 0.01 * std::abs(y[i]));
      if (finite && std::abs(x[i] - y[i]) > error) error = std::abs(x[i] - y[i]), worst = i;
    }
    const ElementDifferences whole = compare_elements(a.data(), b.data(), dtype, count, tolerance);
    CHECK(whole.changed == changed);
    CHECK(whole.differing == differing);
    CHECK(whole.absolute.index == worst);
    // The second half first.
    const uint64_t half = count / 2;
    ElementDifferences parts = compare_elements(a.data() + half * bytes, b.data() + half * bytes, dtype, count - half, tolerance);
    for (uint64_t* index : {&parts.first, &parts.absolute.index, &parts.relative.index})
      if (*index != WorstElement::kNowhere) *index += half;
    parts.add(compare_elements(a.data(), b.data(), dtype, half, tolerance));
    CHECK(parts.changed == whole.changed);
    CHECK(parts.differing == whole.differing);
    CHECK(parts.first == whole.first);
    CHECK(parts.absolute.index == whole.absolute.index);
    CHECK(parts.relative.index == whole.relative.index);
    CHECK(parts.relative.error == whole.relative.error);
  }
}
