// Floats of 8 and 16 bits to and from float32, bit by bit as torch 2.15 does it (torch/headeronly/util/Float8_*.h, Half.h, BFloat16.h).
// Private to kernels/convert.
//
// format     bits            bias  special values
// float16    1 + 5 + 10       15   IEEE
// bfloat16   upper half of a float32
// e5m2       1 + 5 + 2        15   IEEE
// e4m3fn     1 + 4 + 3         7   0x7f and 0xff are NaN, there is no infinity; too large becomes 448 (0x7e), infinity too
// e4m3fnuz   1 + 4 + 3         8   0x80 is the only NaN, there are no infinity and no -0; too large becomes NaN
// e5m2fnuz   1 + 5 + 2        16   the same
// e8m0fnu    8 bits exponent 127   2^(x - 127), 0xff is NaN, no sign, no zero
#pragma once

#include <bit>
#include <cstdint>

namespace dcp::small_floats {

inline constexpr uint32_t kFloatInfinity = 0x7F800000, kFloatSign = 0x80000000;

template <unsigned kExponentBits, unsigned kMantissaBits, unsigned kBias>
struct Format {
  static constexpr unsigned kDropped = 23 - kMantissaBits;
  static constexpr uint32_t kSign = 1u << (kExponentBits + kMantissaBits);

  // Rounds to nearest even without regard to special values. `bits`: of a float without its sign that is below 2^(highest exponent + 1),
  // where a carry out of the mantissa correctly gives the next exponent.
  static uint32_t round(uint32_t bits) {
    constexpr uint32_t kFirstNormal = (128 - kBias) << 23;
    // Adding 2^(23 + lowest exponent) lets the addition's own rounding cut the mantissa where a subnormal's ends.
    constexpr uint32_t kAlign = (128 - kBias + kDropped) << 23;
    const uint32_t subnormal = std::bit_cast<uint32_t>(std::bit_cast<float>(bits) + std::bit_cast<float>(kAlign)) - kAlign;
    const uint32_t odd = (bits >> kDropped) & 1;
    const uint32_t normal = (bits - ((127 - kBias) << 23) + (1u << (kDropped - 1)) - 1 + odd) >> kDropped;
    return bits < kFirstNormal ? subnormal : normal;
  }

  // The value without regard to NaN and infinity. A multiplication, which is exact, corrects the exponent bias and also normalizes
  // subnormals.
  static float expand(uint32_t x) {
    const float magnitude = std::bit_cast<float>((x & (kSign - 1)) << kDropped) * std::bit_cast<float>((254 - kBias) << 23);
    return std::bit_cast<float>(std::bit_cast<uint32_t>(magnitude) | ((x & kSign) != 0 ? kFloatSign : 0));
  }
};

inline uint32_t magnitude_bits(float f) { return std::bit_cast<uint32_t>(f) & ~kFloatSign; }
inline uint32_t sign_bit(float f) { return std::bit_cast<uint32_t>(f) >> 31; }

struct Float16 {
  using F = Format<5, 10, 15>;
  static uint16_t encode(float f) {
    const uint32_t bits = magnitude_bits(f);
    // A NaN keeps as much of its mantissa as fits, and becomes quiet, as with x86's own instruction.
    const uint32_t special = bits > kFloatInfinity ? 0x7E00 | ((bits >> F::kDropped) & 0x3FF) : 0x7C00;
    const uint32_t x = bits >= 0x47800000 ? special : F::round(bits);  // 65536
    return static_cast<uint16_t>(x | (sign_bit(f) << 15));
  }
  static float decode(uint16_t x) {
    const uint32_t bits = std::bit_cast<uint32_t>(F::expand(x));
    if ((x & 0x7C00) != 0x7C00) return std::bit_cast<float>(bits);
    const uint32_t quiet = (x & 0x3FF) != 0 ? 0x00400000 : 0;
    return std::bit_cast<float>(bits | kFloatInfinity | quiet);
  }
};

struct BFloat16 {
  static uint16_t encode(float f) {
    const uint32_t bits = std::bit_cast<uint32_t>(f);
    const uint32_t rounded = (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16;
    return static_cast<uint16_t>(magnitude_bits(f) > kFloatInfinity ? 0x7FC0 : rounded);
  }
  static float decode(uint16_t x) { return std::bit_cast<float>(uint32_t{x} << 16); }
};

struct E5M2 {
  using F = Format<5, 2, 15>;
  static uint8_t encode(float f) {
    const uint32_t bits = magnitude_bits(f);
    const uint32_t special = bits > kFloatInfinity ? 0x7F : 0x7C;
    const uint32_t x = bits >= 0x47800000 ? special : F::round(bits);  // 65536
    return static_cast<uint8_t>(x | (sign_bit(f) << 7));
  }
  static float decode(uint8_t x) { return Float16::decode(static_cast<uint16_t>(x << 8)); }  // a float16 without its lower half
};

struct E4M3FN {
  using F = Format<4, 3, 7>;
  static uint8_t encode(float f) {
    const uint32_t bits = magnitude_bits(f);
    const uint32_t rounded = bits >= 0x43F00000 ? 0x7E : F::round(bits);  // 480
    const uint32_t x = bits > kFloatInfinity ? 0x7F : rounded == 0x7F ? 0x7E : rounded;
    return static_cast<uint8_t>(x | (sign_bit(f) << 7));
  }
  static float decode(uint8_t x) {
    if ((x & 0x7F) == 0x7F) return std::bit_cast<float>(0x7FF00000 | (uint32_t{x} >> 7 << 31));
    return F::expand(x);
  }
};

// kLimit: the first float32 that does not fit.
template <class F, uint32_t kLimit>
struct Fnuz {
  static uint8_t encode(float f) {
    const uint32_t bits = magnitude_bits(f);
    const uint32_t rounded = bits >= kLimit ? 0x80 : F::round(bits);
    return static_cast<uint8_t>(rounded == 0 ? 0 : rounded | (sign_bit(f) << 7));
  }
  static float decode(uint8_t x) { return x == 0x80 ? std::bit_cast<float>(0x7F800001) : F::expand(x); }
};
using E4M3FNUZ = Fnuz<Format<4, 3, 8>, 0x43800000>;   // 256
using E5M2FNUZ = Fnuz<Format<5, 2, 16>, 0x47800000>;  // 65536

struct E8M0FNU {
  // Rounds to the nearest power of two, with ties upwards; among float32's subnormals ties go down, to 2^-127. The sign is lost.
  static uint8_t encode(float f) {
    const uint32_t bits = magnitude_bits(f);
    const uint32_t exponent = bits >> 23, mantissa = bits & 0x7FFFFF;
    const uint32_t up = exponent > 0 ? mantissa >= 0x400000 : mantissa > 0x400000;
    return static_cast<uint8_t>(exponent == 0xFF ? 0xFF : exponent + up);
  }
  static float decode(uint8_t x) {
    const uint32_t special = x == 0 ? 0x00400000 : 0x7F800001;
    return std::bit_cast<float>(x == 0 || x == 0xFF ? special : uint32_t{x} << 23);
  }
};

}  // namespace dcp::small_floats
