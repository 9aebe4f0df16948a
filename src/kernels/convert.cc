#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>

#include "kernels/float_codecs.h"
#include "kernels/kernels.h"

namespace dcp::small_floats {
namespace {

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

}  // namespace

}  // namespace dcp::small_floats

namespace dcp {

const codecs::Table& codecs_for([[maybe_unused]] Isa isa) {
#ifdef DCPCTL_X86_LEVELS
  if (isa == Isa::kAvx512) return codecs::avx512::kTable;
  if (isa == Isa::kAvx2) return codecs::avx2::kTable;
#endif
  return codecs::baseline::kTable;
}

namespace {

using codecs::Format;

constexpr size_t kFloatBlock = 2048;  // elements; as floats they stay in the first-level cache

constexpr Format format_of(DType dtype) {
  switch (dtype) {
    case DType::float64: return Format::kFloat64;
    case DType::float32: return Format::kFloat32;
    case DType::float16: return Format::kFloat16;
    case DType::bfloat16: return Format::kBFloat16;
    case DType::float8_e4m3fn: return Format::kE4M3FN;
    case DType::float8_e5m2: return Format::kE5M2;
    case DType::float8_e4m3fnuz: return Format::kE4M3FNUZ;
    case DType::float8_e5m2fnuz: return Format::kE5M2FNUZ;
    default: return Format::kNoFormat;
  }
}

// Bit patterns without their sign bit grow with the number that they stand for: 0, subnormals, up to `largest`; then infinity, if there is
// one.
struct Magnitudes {
  DType dtype;
  uint64_t largest;
  bool infinity;
};
constexpr std::array<Magnitudes, codecs::kFormats> kMagnitudes{{{DType::float64, 0x7FEFFFFFFFFFFFFF, true},
                                                                {DType::float32, 0x7F7FFFFF, true},
                                                                {DType::float16, 0x7BFF, true},
                                                                {DType::bfloat16, 0x7F7F, true},
                                                                {DType::float8_e4m3fn, 0x7E, false},
                                                                {DType::float8_e5m2, 0x7B, true},
                                                                {DType::float8_e4m3fnuz, 0x7F, false},
                                                                {DType::float8_e5m2fnuz, 0x7F, false}}};

// A range of magnitudes; empty if first > last.
struct Range {
  uint64_t first = 1, last = 0;
  bool empty() const { return first > last; }
};
struct Lossy {
  Range zeroed, overflowed, not_finite;
};

// What the number with this magnitude becomes; NaN where it does not fit.
double cast_of(const Magnitudes& from, uint64_t magnitude, DType to) {
  constexpr ConvertOptions kOrNan{.fp8_overflow = Fp8Overflow::kNan, .isa = Isa::kBaseline};
  std::array<std::byte, sizeof(uint64_t)> bits, out;
  std::memcpy(bits.data(), &magnitude, sizeof magnitude);
  convert(out.data(), to, bits.data(), from.dtype, 1, kOrNan);
  double number = 0;
  convert(reinterpret_cast<std::byte*>(&number), DType::float64, out.data(), to, 1, kOrNan);
  return number;
}

// The first of [first, last] for which `is` holds; it must then hold for all after it. last + 1 if it holds for none.
template <class Is>
uint64_t first_that(uint64_t first, uint64_t last, Is is) {
  for (++last; first < last;) {
    const uint64_t middle = first + (last - first) / 2;
    if (is(middle)) last = middle;
    else first = middle + 1;
  }
  return first;
}

Lossy find_lossy(const Magnitudes& from, DType to) {
  Lossy lossy;
  lossy.zeroed.last = first_that(1, from.largest, [&](uint64_t m) { return cast_of(from, m, to) != 0; }) - 1;
  const uint64_t top = from.largest + (from.infinity ? 1 : 0);
  lossy.overflowed.first = first_that(1, top, [&](uint64_t m) { return !std::isfinite(cast_of(from, m, to)); });
  lossy.overflowed.last = from.infinity && std::isinf(cast_of(from, top, to)) ? from.largest : top;  // kept infinity is no loss
  lossy.not_finite = {from.largest + 1, (uint64_t{1} << (bytes_of(from.dtype) * 8 - 1)) - 1};
  return lossy;
}

// Found once, by running the conversion itself.
const Lossy& lossy_between(Format from, Format to) {
  using Pairs = std::array<std::array<Lossy, codecs::kFormats>, codecs::kFormats>;
  static const Pairs pairs = [] {
    Pairs all;
    for (size_t f = 0; f < codecs::kFormats; ++f)
      for (size_t t = 0; t < codecs::kFormats; ++t) all[f][t] = find_lossy(kMagnitudes[f], kMagnitudes[t].dtype);
    return all;
  }();
  return pairs[from][to];
}

// One conversion in the code of one instruction set.
struct Route {
  Route(DType to, DType from, const ConvertOptions& options)
      : codecs(codecs_for(options.isa)),
        decode(codecs.decode[format_of(from)]),
        encoder(to == DType::float8_e4m3fn && options.fp8_overflow == Fp8Overflow::kNan ? codecs.encode_e4m3fn_or_nan
                                                                                        : codecs.encode[format_of(to)]) {}

  const codecs::Table& codecs;
  codecs::Convert decode;          // null: from float32
  const codecs::Encoder& encoder;  // its functions are null: to float32
};

// Calls fn(to, from, n) for blocks of elements, from the first to the last.
template <class Fn>
void for_blocks(std::byte* to, DType to_type, const std::byte* from, DType from_type, uint64_t elements, Fn fn) {
  while (elements > 0) {
    const size_t n = std::min<uint64_t>(elements, kFloatBlock);
    fn(to, from, n);
    to += n * bytes_of(to_type);
    from += n * bytes_of(from_type);
    elements -= n;
  }
}

using Lanes = std::array<float, kFloatBlock>;

// `seen` is the extent of the elements or of their values as floats, and `known` says which of these get lost.
CastLosses count_losses(const codecs::Extent& seen, const Lossy& known, const std::byte* from, DType from_type, size_t n,
                        const Lossy& lossy, const codecs::Table& codecs) {
  const codecs::Count count = codecs.count[std::countr_zero(bytes_of(from_type))];
  CastLosses losses;
  if (seen.lowest <= known.zeroed.last && !lossy.zeroed.empty()) losses.zeroed = count(from, n, lossy.zeroed.first, lossy.zeroed.last);
  if (seen.highest >= known.overflowed.first && !lossy.overflowed.empty())
    losses.overflowed = count(from, n, lossy.overflowed.first, lossy.overflowed.last);
  if (seen.highest >= known.not_finite.first && !lossy.not_finite.empty())
    losses.not_finite = count(from, n, lossy.not_finite.first, lossy.not_finite.last);
  return losses;
}

}  // namespace

CastLosses& CastLosses::operator+=(const CastLosses& more) {
  overflowed += more.overflowed;
  not_finite += more.not_finite;
  zeroed += more.zeroed;
  return *this;
}

bool castable(DType dtype) { return format_of(dtype) != Format::kNoFormat; }

Overflow overflow_of(DType to, Fp8Overflow fp8_overflow) {
  switch (to) {
    case DType::float8_e4m3fn: return fp8_overflow == Fp8Overflow::kSaturate ? Overflow::kLargest : Overflow::kNan;
    case DType::float8_e4m3fnuz:
    case DType::float8_e5m2fnuz: return Overflow::kNan;
    default: return Overflow::kInfinity;
  }
}

namespace {

// Both dtypes are castable, and differ.
void convert_floats(std::byte* to, DType to_type, const std::byte* from, DType from_type, uint64_t elements,
                    const ConvertOptions& options) {
  const Route route(to_type, from_type, options);
  if (route.decode == nullptr) return route.encoder.convert(to, from, elements);
  if (route.encoder.convert == nullptr) return route.decode(to, from, elements);
  alignas(64) Lanes lanes;
  for_blocks(to, to_type, from, from_type, elements, [&](std::byte* out, const std::byte* in, size_t n) {
    route.decode(lanes.data(), in, n);
    route.encoder.convert(out, lanes.data(), n);
  });
}

}  // namespace

CastLosses cast(std::byte* to, DType to_type, const std::byte* from, DType from_type, uint64_t elements, const ConvertOptions& options) {
  CastLosses losses;
  if (elements == 0) return losses;
  const Lossy& lossy = lossy_between(format_of(from_type), format_of(to_type));
  if (lossy.zeroed.empty() && lossy.overflowed.empty()) {
    convert(to, to_type, from, from_type, elements, options);
    return losses;
  }
  const Route route(to_type, from_type, options);
  const Lossy& as_float = lossy_between(Format::kFloat32, format_of(to_type));
  alignas(64) Lanes lanes;
  for_blocks(to, to_type, from, from_type, elements, [&](std::byte* out, const std::byte* in, size_t n) {
    if (from_type == DType::float64) {  // float32 cannot hold all of them, so the doubles are examined
      losses += count_losses(route.codecs.extent_of_doubles(in, n), lossy, in, from_type, n, lossy, route.codecs);
      return convert_floats(out, to_type, in, from_type, n, options);
    }
    if (route.decode != nullptr) route.decode(lanes.data(), in, n);
    const codecs::Extent seen = route.encoder.watch(out, route.decode != nullptr ? static_cast<const void*>(lanes.data()) : in, n);
    losses += count_losses(seen, as_float, in, from_type, n, lossy, route.codecs);
  });
  return losses;
}

// convert() decodes a block of elements into a lane type that holds them exactly, and encodes the block from there.
//
// Four lane types are enough: float for floats of up to 32 bits, double, int64_t for the integers it can hold, uint64_t. From a lane to a
// target there is one rounding only, except that torch rounds twice on the way to formats of 8 and 16 bits: to float32 first. So 18
// decoders, and 18 encoders for each of four lanes, make all pairs of real dtypes; complex numbers are pairs of real ones. Conversions
// between floats use the vector code of casts.cc.

namespace {

constexpr size_t kBlock = 512;  // elements; the lanes stay in the first-level cache

enum class Lane : uint8_t { kFloat, kDouble, kInt64, kUint64, kCount };

// Float to integer truncates. What does not fit is undefined in C++ and differs between torch's own vector code paths; here it is what
// x86's instruction gives: the most negative number of 64 bits (32 for int32 and signed types below), of which the lower bits are kept.
template <class Wide, class Real>
Wide truncate(Real v) {
  constexpr Real kEnd = static_cast<Real>(uint64_t{1} << (8 * sizeof(Wide) - 1));
  return v >= -kEnd && v < kEnd ? static_cast<Wide>(v) : std::numeric_limits<Wide>::min();
}

template <class Int, class Real>
Int to_int(Real v) {
  if constexpr (std::is_integral_v<Real>) {
    return static_cast<Int>(v);
  } else if constexpr (std::is_same_v<Int, uint64_t>) {
    constexpr Real kHalf = static_cast<Real>(uint64_t{1} << 63);
    const auto upper = static_cast<uint64_t>(truncate<int64_t>(v - kHalf)) ^ (uint64_t{1} << 63);
    return v >= kHalf ? upper : static_cast<uint64_t>(truncate<int64_t>(v));
  } else if constexpr (sizeof(Int) == 8 || std::is_same_v<Int, uint32_t> || std::is_same_v<Int, uint8_t>) {
    return static_cast<Int>(truncate<int64_t>(v));  // uint8: torch goes through int64_t on purpose
  } else {
    return static_cast<Int>(truncate<int32_t>(v));
  }
}

// How one real dtype is stored: Bits in memory, a lane in the registers.
template <class Number, class LaneType>
struct Plain {
  using Bits = Number;
  using L = LaneType;
  static L decode(Bits x) { return static_cast<L>(x); }
  template <class From>
  static Bits encode(From v) {
    if constexpr (std::is_integral_v<Bits>) {
      return to_int<Bits>(v);
    } else {
      return static_cast<Bits>(v);
    }
  }
};

template <class Format, class Stored>
struct Small {
  using Bits = Stored;
  using L = float;
  static float decode(Bits x) { return Format::decode(x); }
  template <class From>
  static Bits encode(From v) {
    return Format::encode(static_cast<float>(v));
  }
};

struct Bool {
  using Bits = uint8_t;
  using L = int64_t;
  static int64_t decode(Bits x) { return x != 0; }
  template <class From>
  static Bits encode(From v) {
    return v != From{0};
  }
};

template <class L>
constexpr Lane kLaneOf = std::is_same_v<L, float>     ? Lane::kFloat
                         : std::is_same_v<L, double>  ? Lane::kDouble
                         : std::is_same_v<L, int64_t> ? Lane::kInt64
                                                      : Lane::kUint64;

// `step`: bytes from one element to the next. Lanes are kBlock numbers of the lane's type.
using DecodeBlock = void (*)(void* lanes, const std::byte* from, size_t step, size_t n);
using EncodeBlock = void (*)(std::byte* to, size_t step, const void* lanes, size_t n);

template <class Codec>
void decode_block(void* lanes, const std::byte* from, size_t step, size_t n) {
  auto* out = static_cast<typename Codec::L*>(lanes);
  for (size_t i = 0; i < n; ++i, from += step) {
    typename Codec::Bits bits;
    std::memcpy(&bits, from, sizeof bits);
    out[i] = Codec::decode(bits);
  }
}

template <class Codec, class L>
void encode_block(std::byte* to, size_t step, const void* lanes, size_t n) {
  const auto* in = static_cast<const L*>(lanes);
  for (size_t i = 0; i < n; ++i, to += step) {
    const typename Codec::Bits bits = Codec::encode(in[i]);
    std::memcpy(to, &bits, sizeof bits);
  }
}

struct Codec {
  uint8_t bytes = 0;  // 0: not a dtype that converts
  Lane lane{};
  DecodeBlock decode = nullptr;
  std::array<EncodeBlock, static_cast<size_t>(Lane::kCount)> encode{};  // by lane
};

template <class C>
constexpr Codec codec_of() {
  return {sizeof(typename C::Bits),
          kLaneOf<typename C::L>,
          decode_block<C>,
          {encode_block<C, float>, encode_block<C, double>, encode_block<C, int64_t>, encode_block<C, uint64_t>}};
}

constexpr auto kCodecs = [] {
  using namespace small_floats;
  std::array<Codec, static_cast<size_t>(DType::kCount)> codecs{};
  const auto set = [&](DType dtype, const Codec& codec) { codecs[static_cast<size_t>(dtype)] = codec; };
  set(DType::float64, codec_of<Plain<double, double>>());
  set(DType::float32, codec_of<Plain<float, float>>());
  set(DType::float16, codec_of<Small<Float16, uint16_t>>());
  set(DType::bfloat16, codec_of<Small<BFloat16, uint16_t>>());
  set(DType::float8_e4m3fn, codec_of<Small<E4M3FN, uint8_t>>());
  set(DType::float8_e5m2, codec_of<Small<E5M2, uint8_t>>());
  set(DType::float8_e4m3fnuz, codec_of<Small<E4M3FNUZ, uint8_t>>());
  set(DType::float8_e5m2fnuz, codec_of<Small<E5M2FNUZ, uint8_t>>());
  set(DType::float8_e8m0fnu, codec_of<Small<E8M0FNU, uint8_t>>());
  set(DType::int64, codec_of<Plain<int64_t, int64_t>>());
  set(DType::int32, codec_of<Plain<int32_t, int64_t>>());
  set(DType::int16, codec_of<Plain<int16_t, int64_t>>());
  set(DType::int8, codec_of<Plain<int8_t, int64_t>>());
  set(DType::uint64, codec_of<Plain<uint64_t, uint64_t>>());
  set(DType::uint32, codec_of<Plain<uint32_t, int64_t>>());
  set(DType::uint16, codec_of<Plain<uint16_t, int64_t>>());
  set(DType::uint8, codec_of<Plain<uint8_t, int64_t>>());
  set(DType::bool_, codec_of<Bool>());
  return codecs;
}();

bool is_complex(DType dtype) { return facts_of(dtype).kind == DTypeKind::kComplex; }

const Codec& codec_for(DType dtype) { return kCodecs[static_cast<size_t>(component_of(dtype))]; }

// `to` and `from` are real; steps in bytes.
void convert_real(std::byte* to, size_t to_step, const Codec& to_codec, const std::byte* from, size_t from_step, const Codec& from_codec,
                  uint64_t elements) {
  alignas(64) std::array<std::byte, kBlock * sizeof(uint64_t)> lanes;  // of any lane type
  const EncodeBlock encode = to_codec.encode[static_cast<size_t>(from_codec.lane)];
  while (elements > 0) {
    const size_t n = elements < kBlock ? static_cast<size_t>(elements) : kBlock;
    from_codec.decode(lanes.data(), from, from_step, n);
    encode(to, to_step, lanes.data(), n);
    to += n * to_step;
    from += n * from_step;
    elements -= n;
  }
}

// Unlike all other real targets, bool depends on the imaginary part as well.
void complex_to_bool(std::byte* to, const std::byte* from, const Codec& source, uint64_t elements) {
  std::array<std::byte, 2 * kBlock> parts;
  while (elements > 0) {
    const size_t n = elements < kBlock ? static_cast<size_t>(elements) : kBlock;
    convert_real(parts.data(), 1, codec_for(DType::bool_), from, source.bytes, source, 2 * n);
    for (size_t i = 0; i < n; ++i) to[i] = parts[2 * i] | parts[2 * i + 1];
    to += n;
    from += 2 * n * source.bytes;
    elements -= n;
  }
}

}  // namespace

DType component_of(DType dtype) {
  switch (dtype) {
    case DType::complex128: return DType::float64;
    case DType::complex64: return DType::float32;
    case DType::complex32: return DType::float16;
    case DType::bcomplex32: return DType::bfloat16;
    default: return dtype;
  }
}

bool convertible(DType from, DType to) { return from == to || (codec_for(from).bytes != 0 && codec_for(to).bytes != 0); }

void convert(std::byte* to, DType to_type, const std::byte* from, DType from_type, uint64_t elements, const ConvertOptions& options) {
  if (elements == 0) return;  // the pointers may be null
  if (to_type == from_type) {
    std::memcpy(to, from, elements * bytes_of(to_type));
    return;
  }
  if (castable(from_type) && castable(to_type)) return convert_floats(to, to_type, from, from_type, elements, options);
  const Codec &target = codec_for(to_type), &source = codec_for(from_type);
  if (is_complex(from_type) && is_complex(to_type)) {
    return convert_real(to, target.bytes, target, from, source.bytes, source, 2 * elements);
  }
  if (is_complex(from_type) && to_type == DType::bool_) return complex_to_bool(to, from, source, elements);
  const auto to_step = static_cast<size_t>(bytes_of(to_type)), from_step = static_cast<size_t>(bytes_of(from_type));
  if (is_complex(to_type)) std::memset(to, 0, elements * to_step);  // the imaginary parts
  convert_real(to, to_step, target, from, from_step, source, elements);
}

}  // namespace dcp
