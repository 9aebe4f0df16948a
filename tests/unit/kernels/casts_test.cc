// Casts between floats, for each instruction set that this processor has: all patterns of float32 against torch's (cast.digests, written
// by make_digests.py), and the count of what gets lost against one element at a time.
#include <catch2/catch_test_macros.hpp>
#include <cmath>
#include <cstring>
#include <fstream>
#include <map>
#include <random>
#include <sstream>
#include <string>
#include <vector>

#include "base/sums.h"
#include "kernels/float_codecs.h"
#include "kernels/kernels.h"

using namespace dcp;

namespace {

using Data = std::vector<std::byte>;

constexpr uint64_t kChunk = uint64_t{1} << 24;  // patterns under one digest
constexpr DType kFloats[] = {DType::float64,       DType::float32,     DType::float16,         DType::bfloat16,
                             DType::float8_e4m3fn, DType::float8_e5m2, DType::float8_e4m3fnuz, DType::float8_e5m2fnuz};

std::vector<Isa> all_isas() {
  std::vector<Isa> all;
  for (int i = 0; i <= static_cast<int>(best_isa()); ++i) all.push_back(static_cast<Isa>(i));
  return all;
}

// By target, and "/nan" where overflow becomes NaN.
std::map<std::string, std::vector<uint32_t>> read_digests() {
  std::map<std::string, std::vector<uint32_t>> all;
  std::ifstream file(DCPCTL_CAST_DIGESTS);
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with('#')) continue;
    std::istringstream words(line);
    std::string target;
    words >> target >> std::hex;
    for (uint32_t crc; words >> crc;) all[target].push_back(crc);
  }
  return all;
}

// The chunks of float32 patterns that begin with these bytes.
void check_chunks(const std::vector<uint32_t>& chunks) {
  const auto digests = read_digests();
  REQUIRE(digests.size() == 7);
  Data from(kChunk * 4), to(kChunk * 2);
  for (const uint32_t chunk : chunks) {
    for (uint32_t i = 0; i < kChunk; ++i) store_le(&from[4 * uint64_t{i}], (chunk << 24) + i);
    for (const auto& [target, crcs] : digests) {
      REQUIRE(crcs.size() == 256);
      const DType to_type = dtype_named(target.substr(0, target.find('/'))).value();
      const Fp8Overflow overflow = target.ends_with("/nan") ? Fp8Overflow::kNan : Fp8Overflow::kSaturate;
      for (const Isa isa : all_isas()) {
        INFO(target << ", chunk " << chunk << ", instruction set " << static_cast<int>(isa));
        convert(to.data(), to_type, from.data(), DType::float32, kChunk, {.fp8_overflow = overflow, .isa = isa});
        CHECK(crc32(Bytes(to).first(kChunk * bytes_of(to_type))) == crcs[chunk]);
      }
    }
  }
}

template <class Bits>
Data patterns(std::initializer_list<Bits> list) {
  Data data(list.size() * sizeof(Bits));
  size_t at = 0;
  for (Bits bits : list) store_le(&data[sizeof(Bits) * at++], bits);
  return data;
}

// All patterns of up to 16 bits; else a hundred thousand of all magnitudes, infinity and NaN among them.
Data some_of(DType dtype) {
  const uint64_t width = bytes_of(dtype), n = width <= 2 ? uint64_t{1} << (8 * width) : 100'000;
  std::mt19937_64 random(7);
  Data data(n * width);
  for (uint64_t i = 0; i < n; ++i) {
    uint64_t bits = i;
    if (width == 4) bits = random() >> 32;
    // float64: exponents that float32 has, and some beyond on both sides.
    if (width == 8) bits = (random() & 0x800FFFFFFFFFFFFF) | (i % 100 == 0 ? 0x7FF : 850 + random() % 400) << 52;
    if (width >= 4 && i % 1000 == 0) bits &= uint64_t{1} << (8 * width - 1);
    if (width >= 4 && i % 1000 == 1) bits = uint64_t{width == 4 ? 0x7F8u : 0x7FF0u} << (8 * width - (width == 4 ? 12 : 16));
    std::memcpy(&data[i * width], &bits, width);
  }
  return data;
}

double number_at(const Data& data, DType dtype, uint64_t i) {
  double value = 0;
  convert(reinterpret_cast<std::byte*>(&value), DType::float64, &data[i * bytes_of(dtype)], dtype, 1);
  return value;
}

// What cast() must count, one element at a time, from what became of it.
CastLosses losses_of(const Data& from, DType from_type, const Data& or_nan, DType to_type) {
  CastLosses losses;
  const bool is_fnuz = from_type == DType::float8_e4m3fnuz || from_type == DType::float8_e5m2fnuz;
  for (uint64_t i = 0; i < from.size() / bytes_of(from_type); ++i) {
    const double before = number_at(from, from_type, i), after = number_at(or_nan, to_type, i);
    if (!std::isfinite(before) && !is_fnuz) ++losses.not_finite;
    if (std::isnan(before)) continue;
    if (before != 0 && after == 0) ++losses.zeroed;
    if (!std::isfinite(after) && !(std::isinf(before) && std::isinf(after))) ++losses.overflowed;
  }
  return losses;
}

}  // namespace

TEST_CASE("the best instruction set is one that codecs were compiled for") {
#ifdef DCPCTL_X86_LEVELS
  CHECK(best_isa() <= Isa::kAvx512);
#else
  CHECK(best_isa() == Isa::kBaseline);
#endif
  for (const Isa isa : all_isas()) CHECK(codecs_for(isa).encode[codecs::kBFloat16].convert != nullptr);
}

// Zero and float32's own subnormals; the smallest numbers and the ties of each format; 1; beyond 240, 448, 57344, 65504; beyond bfloat16's
// largest, infinity and NaN. Both signs.
TEST_CASE("float32 casts as in torch: chunks with all that is special") {
  check_chunks({0x00, 0x33, 0x36, 0x38, 0x3A, 0x3F, 0x43, 0x47, 0x7F, 0x80, 0xB7, 0xC3, 0xC7, 0xFF});
}

TEST_CASE("float32 casts as in torch: all patterns", "[.exhaustive]") {
  std::vector<uint32_t> all;
  for (uint32_t chunk = 0; chunk < 256; ++chunk) all.push_back(chunk);
  check_chunks(all);
}

TEST_CASE("all instruction sets give the same bytes, wherever the elements lie") {
  for (const DType from_type : kFloats) {
    const Data from = some_of(from_type);
    const uint64_t n = from.size() / bytes_of(from_type);
    for (const DType to_type : kFloats) {
      CAPTURE(facts_of(from_type).name, facts_of(to_type).name);
      Data expected(n * bytes_of(to_type)), shifted_from(from.size() + 1), shifted_to(expected.size() + 1);
      convert(expected.data(), to_type, from.data(), from_type, n, {.isa = Isa::kBaseline});
      std::copy(from.begin(), from.end(), shifted_from.begin() + 1);
      for (const Isa isa : all_isas()) {
        convert(&shifted_to[1], to_type, &shifted_from[1], from_type, n, {.isa = isa});
        REQUIRE(std::equal(expected.begin(), expected.end(), shifted_to.begin() + 1));
        // Short runs take the code behind the vectors.
        for (uint64_t i = 0; i < std::min<uint64_t>(n, 500);) {
          const uint64_t step = std::min<uint64_t>(1 + i % 37, std::min<uint64_t>(n, 500) - i);
          Data out(step * bytes_of(to_type));
          convert(out.data(), to_type, &from[i * bytes_of(from_type)], from_type, step, {.isa = isa});
          REQUIRE(std::equal(out.begin(), out.end(), expected.begin() + static_cast<int64_t>(i * bytes_of(to_type))));
          i += step;
        }
      }
    }
  }
}

TEST_CASE("what casts lose is counted") {
  for (const DType from_type : kFloats) {
    const Data from = some_of(from_type);
    const uint64_t n = from.size() / bytes_of(from_type);
    for (const DType to_type : kFloats) {
      CAPTURE(facts_of(from_type).name, facts_of(to_type).name);
      Data or_nan(n * bytes_of(to_type)), out(or_nan.size());
      convert(or_nan.data(), to_type, from.data(), from_type, n, {.fp8_overflow = Fp8Overflow::kNan});
      const CastLosses expected = losses_of(from, from_type, or_nan, to_type);
      for (const Isa isa : all_isas()) {
        for (const Fp8Overflow overflow : {Fp8Overflow::kSaturate, Fp8Overflow::kNan}) {
          const ConvertOptions options{.fp8_overflow = overflow, .isa = isa};
          const CastLosses losses = cast(out.data(), to_type, from.data(), from_type, n, options);
          REQUIRE(losses.zeroed == expected.zeroed);
          REQUIRE(losses.overflowed == expected.overflowed);
          if (bytes_of(to_type) < bytes_of(from_type)) REQUIRE(losses.not_finite == expected.not_finite);
          Data plain(out.size());
          convert(plain.data(), to_type, from.data(), from_type, n, options);
          REQUIRE(out == plain);
        }
      }
    }
  }
}

TEST_CASE("where numbers begin to be lost") {
  const auto losses = [](DType to, float value) {
    uint64_t out = 0;
    return cast(reinterpret_cast<std::byte*>(&out), to, reinterpret_cast<const std::byte*>(&value), DType::float32, 1);
  };
  const auto overflows = [&](DType to, float value) { return losses(to, value).overflowed == 1; };
  const auto vanishes = [&](DType to, float value) { return losses(to, value).zeroed == 1; };
  CHECK(!overflows(DType::float16, 65519.996F));
  CHECK(overflows(DType::float16, 65520));
  CHECK(!overflows(DType::float16, INFINITY));
  CHECK(!overflows(DType::float16, NAN));
  CHECK(!overflows(DType::float8_e4m3fn, -464));  // a tie to the even mantissa of 448
  CHECK(overflows(DType::float8_e4m3fn, -464.00003F));
  CHECK(overflows(DType::float8_e4m3fn, INFINITY));
  CHECK(!overflows(DType::float8_e4m3fn, NAN));
  CHECK(!overflows(DType::float8_e5m2, 61439.996F));
  CHECK(overflows(DType::float8_e5m2, 61440));
  CHECK(overflows(DType::float8_e4m3fnuz, 248));
  CHECK(overflows(DType::bfloat16, 3.4e38F));
  CHECK(!overflows(DType::float64, 3.4e38F));
  CHECK(!vanishes(DType::float8_e4m3fn, 0x1.000002p-10F));
  CHECK(vanishes(DType::float8_e4m3fn, -0x1p-10F));
  CHECK(!vanishes(DType::float8_e4m3fn, -0.0F));
  CHECK(vanishes(DType::bfloat16, 1e-42F));
}

TEST_CASE("what overflow becomes") {
  CHECK(overflow_of(DType::float16, Fp8Overflow::kSaturate) == Overflow::kInfinity);
  CHECK(overflow_of(DType::float8_e5m2, Fp8Overflow::kSaturate) == Overflow::kInfinity);
  CHECK(overflow_of(DType::float8_e4m3fnuz, Fp8Overflow::kSaturate) == Overflow::kNan);
  CHECK(overflow_of(DType::float8_e4m3fn, Fp8Overflow::kSaturate) == Overflow::kLargest);
  CHECK(overflow_of(DType::float8_e4m3fn, Fp8Overflow::kNan) == Overflow::kNan);
  const Data from = patterns<uint32_t>({0x43E80000, 0x43E80001, 0x7F800000, 0xFF800000, 0xFFC00000});  // 464, the next, inf, -inf, -NaN
  Data out(5);
  convert(out.data(), DType::float8_e4m3fn, from.data(), DType::float32, 5);
  CHECK(out == patterns<uint8_t>({0x7E, 0x7E, 0x7E, 0xFE, 0xFF}));
  convert(out.data(), DType::float8_e4m3fn, from.data(), DType::float32, 5, {.fp8_overflow = Fp8Overflow::kNan});
  CHECK(out == patterns<uint8_t>({0x7E, 0x7F, 0x7F, 0xFF, 0xFF}));
}
