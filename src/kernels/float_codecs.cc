// Compiled once per instruction set, each time in a namespace DCPCTL_LEVEL of its own; float_codecs.h says why nothing is included here. It
// computes the same values as small_floats.h, in a form that compilers can vectorize: masks instead of branches, comparisons of signed
// numbers, and no multiplication of subnormal numbers, which takes x86 a hundred cycles.
#include "kernels/float_codecs.h"

namespace dcp::codecs::DCPCTL_LEVEL {
namespace {

// Elements may be unaligned.
template <class Word>
inline Word load(const void* from, size_t i) {
  Word word;
  __builtin_memcpy(&word, static_cast<const unsigned char*>(from) + i * sizeof word, sizeof word);
  return word;
}
template <class Word>
inline void store(void* to, size_t i, Word word) {
  __builtin_memcpy(static_cast<unsigned char*>(to) + i * sizeof word, &word, sizeof word);
}

constexpr uint32_t kInfinity = 0x7F800000;

inline uint32_t bits_of(float f) { return __builtin_bit_cast(uint32_t, f); }
inline float float_of(uint32_t bits) { return __builtin_bit_cast(float, bits); }
// All ones if a < b, for numbers below 2^31: x86 compares signed numbers only.
inline uint32_t below(uint32_t a, uint32_t b) { return -static_cast<uint32_t>(static_cast<int32_t>(a) < static_cast<int32_t>(b)); }
inline uint32_t either(uint32_t mask, uint32_t yes, uint32_t no) { return (yes & mask) | (no & ~mask); }
inline uint32_t min(uint32_t a, uint32_t b) { return either(below(a, b), a, b); }

// 1 sign bit, kExponentBits, kMantissaBits.
template <unsigned kExponentBits, unsigned kMantissaBits, unsigned kBias>
struct Layout {
  static constexpr unsigned kDropped = 23 - kMantissaBits;
  static constexpr unsigned kSignAt = kExponentBits + kMantissaBits;
  static constexpr uint32_t kSubnormals = 1u << kMantissaBits;  // the first pattern that is not subnormal

  // Rounds to nearest even. The result grows with `magnitude` up to and beyond NaN, so a format caps it where its numbers end.
  static uint32_t round(uint32_t magnitude) {
    constexpr uint32_t kFirstNormal = (128 - kBias) << 23;
    // Adding 2^(23 + lowest exponent) lets the addition's own rounding cut the mantissa where a subnormal's ends.
    constexpr uint32_t kAlign = (128 - kBias + kDropped) << 23;
    const uint32_t subnormal = bits_of(float_of(magnitude) + float_of(kAlign)) - kAlign;
    const uint32_t odd = (magnitude >> kDropped) & 1;
    const uint32_t normal = (magnitude - ((127 - kBias) << 23) + ((1u << (kDropped - 1)) - 1) + odd) >> kDropped;
    return either(below(magnitude, kFirstNormal), subnormal, normal);
  }
  // float32's bits of the magnitude, without regard to NaN and infinity. A subnormal's mantissa is put behind a one, which is then
  // subtracted.
  static uint32_t expand(uint32_t magnitude) {
    constexpr uint32_t kOne = (128 - kBias) << 23;
    const uint32_t shifted = magnitude << kDropped;
    const uint32_t subnormal = bits_of(float_of(shifted + kOne) - float_of(kOne));
    return either(below(magnitude, kSubnormals), subnormal, shifted + ((127 - kBias) << 23));
  }
};

inline uint32_t magnitude_of(uint32_t bits) { return bits & 0x7FFFFFFF; }
inline uint32_t is_nan(uint32_t magnitude) { return below(kInfinity, magnitude); }

struct Float16 {
  using Bits = uint16_t;
  using L = Layout<5, 10, 15>;
  static uint32_t encode(uint32_t bits) {
    const uint32_t m = magnitude_of(bits);
    const uint32_t nan = 0x7E00 | ((m >> 13) & 0x3FF);  // what x86's own instruction keeps of a NaN
    return either(is_nan(m), nan, min(L::round(m), 0x7C00)) | (bits >> 31 << 15);
  }
  static uint32_t decode(uint32_t x) {
    const uint32_t m = x & 0x7FFF, sign = (x & 0x8000) << 16;
    const uint32_t quiet = below(0x7C00, m) & 0x00400000;
    return either(below(m, 0x7C00), L::expand(m), (m << 13) | kInfinity | quiet) | sign;
  }
};

struct BFloat16 {
  using Bits = uint16_t;
  static uint32_t encode(uint32_t bits) { return either(is_nan(magnitude_of(bits)), 0x7FC0, (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16); }
  static uint32_t decode(uint32_t x) { return x << 16; }
};

struct E5M2 {
  using Bits = uint8_t;
  using L = Layout<5, 2, 15>;
  static uint32_t encode(uint32_t bits) {
    const uint32_t m = magnitude_of(bits);
    return either(is_nan(m), 0x7F, min(L::round(m), 0x7C)) | (bits >> 31 << 7);
  }
  static uint32_t decode(uint32_t x) { return Float16::decode(x << 8); }
};

// kMax is what numbers that are too large become: 0x7E is 448, 0x7F NaN.
template <uint32_t kMax>
struct E4M3FN {
  using Bits = uint8_t;
  using L = Layout<4, 3, 7>;
  static uint32_t encode(uint32_t bits) {
    const uint32_t m = magnitude_of(bits);
    return either(is_nan(m), 0x7F, min(L::round(m), kMax)) | (bits >> 31 << 7);
  }
  static uint32_t decode(uint32_t x) {
    const uint32_t m = x & 0x7F;
    return either(below(m, 0x7F), L::expand(m), 0x7FF00000) | ((x & 0x80) << 24);
  }
};

template <class L>
struct Fnuz {
  using Bits = uint8_t;
  static uint32_t encode(uint32_t bits) {
    const uint32_t rounded = min(L::round(magnitude_of(bits)), 0x80);  // NaN, too
    return rounded | (below(0, rounded) & (bits >> 31 << 7));
  }
  static uint32_t decode(uint32_t x) {
    const uint32_t number = L::expand(x & 0x7F) | ((x & 0x80) << 24);
    return either(-static_cast<uint32_t>(x == 0x80), 0x7F800001, number);
  }
};
using E4M3FNUZ = Fnuz<Layout<4, 3, 8>>;
using E5M2FNUZ = Fnuz<Layout<5, 2, 16>>;

template <class Codec>
void decode(void* __restrict to, const void* __restrict from, size_t n) {
  for (size_t i = 0; i < n; ++i) store(to, i, Codec::decode(load<typename Codec::Bits>(from, i)));
}

template <class Codec>
void encode(void* __restrict to, const void* __restrict from, size_t n) {
  for (size_t i = 0; i < n; ++i) store(to, i, static_cast<typename Codec::Bits>(Codec::encode(load<uint32_t>(from, i))));
}

template <class Codec>
Extent watch(void* __restrict to, const void* __restrict from, size_t n) {
  int32_t lowest = 0x7FFFFFFF, highest = 0;
  for (size_t i = 0; i < n; ++i) {
    const uint32_t bits = load<uint32_t>(from, i);
    store(to, i, static_cast<typename Codec::Bits>(Codec::encode(bits)));
    const auto magnitude = static_cast<int32_t>(magnitude_of(bits));
    lowest = magnitude < lowest ? magnitude : lowest;
    highest = magnitude > highest ? magnitude : highest;
  }
  return {static_cast<uint32_t>(lowest), static_cast<uint32_t>(highest)};
}

template <class Codec>
constexpr Encoder kEncoder = {encode<Codec>, watch<Codec>};

void decode_double(void* __restrict to, const void* __restrict from, size_t n) {
  for (size_t i = 0; i < n; ++i) store(to, i, static_cast<float>(load<double>(from, i)));
}
void encode_double(void* __restrict to, const void* __restrict from, size_t n) {
  for (size_t i = 0; i < n; ++i) store(to, i, static_cast<double>(load<float>(from, i)));
}
Extent extent_of_doubles(const void* from, size_t n) {
  int64_t lowest = INT64_MAX, highest = 0;
  for (size_t i = 0; i < n; ++i) {
    const auto magnitude = static_cast<int64_t>(load<uint64_t>(from, i) & INT64_MAX);
    lowest = magnitude < lowest ? magnitude : lowest;
    highest = magnitude > highest ? magnitude : highest;
  }
  return {static_cast<uint64_t>(lowest), static_cast<uint64_t>(highest)};
}

template <class Word>
constexpr Word kMagnitude = static_cast<Word>(static_cast<Word>(~Word{0}) >> 1);

// Sums up in words of the element's width, to keep all lanes of a vector busy, in blocks that cannot overflow them.
template <class Word>
uint64_t count(const void* from, size_t n, uint64_t first, uint64_t last) {
  constexpr size_t kBlock = sizeof(Word) == 1 ? 128 : 32768;
  const Word start = static_cast<Word>(first), length = static_cast<Word>(last - first);
  uint64_t found = 0;
  for (size_t at = 0; at < n; at += kBlock) {
    const size_t end = n - at < kBlock ? n : at + kBlock;
    Word in_block = 0;
    for (size_t i = at; i < end; ++i) {
      const Word distance = static_cast<Word>((load<Word>(from, i) & kMagnitude<Word>)-start);
      in_block = static_cast<Word>(in_block + (distance <= length));
    }
    found += in_block;
  }
  return found;
}

}  // namespace

// `extern`, because a constant has internal linkage otherwise.
extern const Table kTable = {
    {decode_double, nullptr, decode<Float16>, decode<BFloat16>, decode<E4M3FN<0x7E>>, decode<E5M2>, decode<E4M3FNUZ>, decode<E5M2FNUZ>},
    {{encode_double, nullptr},
     {nullptr, nullptr},
     kEncoder<Float16>,
     kEncoder<BFloat16>,
     kEncoder<E4M3FN<0x7E>>,
     kEncoder<E5M2>,
     kEncoder<E4M3FNUZ>,
     kEncoder<E5M2FNUZ>},
    kEncoder<E4M3FN<0x7F>>,
    extent_of_doubles,
    {count<uint8_t>, count<uint16_t>, count<uint32_t>, count<uint64_t>}};

}  // namespace dcp::codecs::DCPCTL_LEVEL
