#include <array>
#include <bit>
#include <catch2/catch_test_macros.hpp>
#include <cmath>
#include <complex>
#include <cstring>
#include <numeric>
#include <vector>

#include "kernels/kernels.h"

using namespace dcp;

namespace {

template <class T>
std::byte* bytes(T& values) {
  return reinterpret_cast<std::byte*>(values.data());
}

template <class T>
T negated(DType dtype, T value) {
  std::array<T, 1> values{value};
  negate(bytes(values), 1, dtype);
  return values[0];
}

}  // namespace

TEST_CASE("bytes are swapped within their unit") {
  for (const unsigned unit : {1U, 2U, 4U, 8U}) {
    std::vector<uint8_t> data(8 * 37 + 1);
    std::iota(data.begin(), data.end(), uint8_t{0});
    const std::vector<uint8_t> before = data;
    const uint64_t units = (data.size() - 1) / unit;
    swap_bytes(bytes(data) + 1, units, unit);  // not aligned
    CHECK(data[0] == before[0]);
    for (size_t i = 0; i < units * unit; ++i) REQUIRE(data[1 + i] == before[1 + i / unit * unit + (unit - 1 - i % unit)]);
  }
}

TEST_CASE("conjugation changes the imaginary part's sign") {
  std::array<std::complex<double>, 2> doubles{{{1, 2}, {-3, std::nan("")}}};
  conjugate(bytes(doubles), 2, DType::complex128);
  CHECK(doubles[0] == std::complex<double>(1, -2));
  CHECK(doubles[1].real() == -3);
  CHECK(std::signbit(doubles[1].imag()));
  std::array<std::complex<float>, 2> floats{{{1, 2}, {-3, -0.0F}}};
  conjugate(bytes(floats), 2, DType::complex64);
  CHECK(floats[0] == std::complex<float>(1, -2));
  CHECK_FALSE(std::signbit(floats[1].imag()));
  for (const DType dtype : {DType::complex32, DType::bcomplex32}) {
    std::array<uint16_t, 4> halves{0x3C00, 0x3C00, 0xBC00, 0x8000};
    conjugate(bytes(halves), 2, dtype);
    CHECK(halves == std::array<uint16_t, 4>{0x3C00, 0xBC00, 0xBC00, 0x0000});
  }
  std::array<float, 2> real{1, 2};
  conjugate(bytes(real), 2, DType::float32);
  CHECK(real == std::array<float, 2>{1, 2});
}

TEST_CASE("negation of floats changes the sign of every component") {
  CHECK(negated(DType::float64, 1.5) == -1.5);
  CHECK(std::signbit(negated(DType::float32, 0.0F)));
  CHECK(negated(DType::float16, uint16_t{0x7E01}) == 0xFE01);
  CHECK(negated(DType::bfloat16, uint16_t{0x8000}) == 0);
  CHECK(negated(DType::float8_e4m3fn, uint8_t{0x7F}) == 0xFF);
  CHECK(negated(DType::float8_e5m2, uint8_t{0x80}) == 0);
  CHECK(negated(DType::complex64, std::complex<float>(1, -2)) == std::complex<float>(-1, 2));
  CHECK(negated(DType::complex128, std::complex<double>(1, -2)) == std::complex<double>(-1, 2));
  CHECK(negated(DType::bcomplex32, uint32_t{0x3F808000}) == 0xBF800000);
}

TEST_CASE("where zero has no sign, it and the NaN in its place stay") {
  for (const DType dtype : {DType::float8_e4m3fnuz, DType::float8_e5m2fnuz}) {
    CHECK(negated(dtype, uint8_t{0}) == 0);
    CHECK(negated(dtype, uint8_t{0x80}) == 0x80);
    CHECK(negated(dtype, uint8_t{0x01}) == 0x81);
    CHECK(negated(dtype, uint8_t{0xFF}) == 0x7F);
  }
}

TEST_CASE("negation of integers is two's complement") {
  CHECK(negated(DType::int8, int8_t{-128}) == -128);
  CHECK(negated(DType::uint8, uint8_t{1}) == 255);
  CHECK(negated(DType::int16, int16_t{300}) == -300);
  CHECK(negated(DType::int32, int32_t{-7}) == 7);
  CHECK(negated(DType::uint64, uint64_t{1}) == UINT64_MAX);
}

TEST_CASE("what has no sign is left alone") {
  for (const DType dtype : {DType::bool_, DType::float8_e8m0fnu, DType::float4_e2m1fn_x2, DType::quint8, DType::bits8}) {
    CHECK(negated(dtype, uint8_t{1}) == 1);
  }
}
