// Byte order and signs, in place.
#include <cstring>
#include <type_traits>

#include "kernels/kernels.h"

namespace dcp {
namespace {

template <class Word, class Change>
void change_each(std::byte* data, uint64_t words, Change change) {
  for (uint64_t i = 0; i < words; ++i, data += sizeof(Word)) {
    Word word;
    std::memcpy(&word, data, sizeof word);
    word = change(word);
    std::memcpy(data, &word, sizeof word);
  }
}

// Calls f with an unsigned integer of that width.
template <class F>
void with_word(unsigned bytes, F f) {
  switch (bytes) {
    case 1: return f(uint8_t{});
    case 2: return f(uint16_t{});
    case 4: return f(uint32_t{});
    default: return f(uint64_t{});
  }
}

template <class Word>
constexpr Word kTopBit = static_cast<Word>(Word{1} << (8 * sizeof(Word) - 1));

void flip_top_bits(std::byte* data, uint64_t words, unsigned word_bytes) {
  with_word(word_bytes, [&](auto zero) {
    using Word = decltype(zero);
    change_each<Word>(data, words, [](Word word) { return static_cast<Word>(word ^ kTopBit<Word>); });
  });
}

}  // namespace

void swap_bytes(std::byte* data, uint64_t units, unsigned unit_bytes) {
  switch (unit_bytes) {
    case 2: return change_each<uint16_t>(data, units, [](uint16_t w) { return __builtin_bswap16(w); });
    case 4: return change_each<uint32_t>(data, units, [](uint32_t w) { return __builtin_bswap32(w); });
    case 8: return change_each<uint64_t>(data, units, [](uint64_t w) { return __builtin_bswap64(w); });
    default: return;  // a single byte has no order
  }
}

// The imaginary part is the upper half of an element, so its sign is the element's top bit.
void conjugate(std::byte* data, uint64_t elements, DType dtype) {
  if (facts_of(dtype).kind != DTypeKind::kComplex) return;
  const auto bytes = static_cast<unsigned>(bytes_of(dtype));
  if (bytes < 16) return flip_top_bits(data, elements, bytes);
  for (uint64_t i = 0; i < elements; ++i, data += bytes) data[bytes - 1] ^= std::byte{0x80};
}

// bool, e8m0, packed and quantized values have no sign and are left alone. torch refuses to negate them.
void negate(std::byte* data, uint64_t elements, DType dtype) {
  const unsigned unit = swap_unit(dtype);
  switch (facts_of(dtype).kind) {
    case DTypeKind::kFloat:
      if (dtype == DType::float8_e4m3fnuz || dtype == DType::float8_e5m2fnuz) {
        // There is only one zero, and 0x80 is the NaN: neither has a sign to change.
        return change_each<uint8_t>(data, elements, [](uint8_t x) { return static_cast<uint8_t>((x & 0x7F) == 0 ? x : x ^ 0x80); });
      }
      return flip_top_bits(data, elements, unit);
    case DTypeKind::kComplex: return flip_top_bits(data, 2 * elements, unit);
    case DTypeKind::kInt:
      return with_word(unit, [&](auto zero) {
        using Word = decltype(zero);
        change_each<Word>(data, elements, [](Word word) { return static_cast<Word>(Word{0} - word); });
      });
    default: return;
  }
}

}  // namespace dcp
