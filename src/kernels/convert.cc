// convert() decodes a block of elements into a lane type that holds them exactly, and encodes the block from there.
//
// Four lane types are enough: float for floats of up to 32 bits, double, int64_t for the integers it can hold, uint64_t. From a lane to a
// target there is one rounding only, except that torch rounds twice on the way to formats of 8 and 16 bits: to float32 first. So 18
// decoders, and 18 encoders for each of four lanes, make all pairs of real dtypes; complex numbers are pairs of real ones. Conversions
// between floats use the vector code of casts.cc.
#include <array>
#include <cstring>
#include <limits>
#include <type_traits>

#include "kernels/casts.h"
#include "kernels/kernels.h"
#include "kernels/small_floats.h"

namespace dcp {
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
