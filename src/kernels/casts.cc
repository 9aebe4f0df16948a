#include "kernels/casts.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>

namespace dcp {
namespace {

using codecs::Format;

constexpr size_t kBlock = 2048;  // elements; as floats they stay in the first-level cache

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
  Range zeroed, overflowed;
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
    const size_t n = std::min<uint64_t>(elements, kBlock);
    fn(to, from, n);
    to += n * bytes_of(to_type);
    from += n * bytes_of(from_type);
    elements -= n;
  }
}

using Lanes = std::array<float, kBlock>;

// `seen` is the extent of the elements or of their values as floats, and `known` says which of these get lost.
CastLosses count_losses(const codecs::Extent& seen, const Lossy& known, const std::byte* from, DType from_type, size_t n,
                        const Lossy& lossy, const codecs::Table& codecs) {
  const codecs::Count count = codecs.count[std::countr_zero(bytes_of(from_type))];
  CastLosses losses;
  if (seen.lowest <= known.zeroed.last && !lossy.zeroed.empty()) losses.zeroed = count(from, n, lossy.zeroed.first, lossy.zeroed.last);
  if (seen.highest >= known.overflowed.first && !lossy.overflowed.empty())
    losses.overflowed = count(from, n, lossy.overflowed.first, lossy.overflowed.last);
  return losses;
}

}  // namespace

CastLosses& CastLosses::operator+=(const CastLosses& more) {
  overflowed += more.overflowed;
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

}  // namespace dcp
