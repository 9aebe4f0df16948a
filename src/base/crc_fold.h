// The arithmetic of CRCs. Private to base/sums and its tests.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/bytes.h"

namespace dcp {

// Arithmetic of a reflected CRC: polynomials over GF(2) modulo the CRC's own, highest bit = x^0. Private to base/sums and its tests.

// W: uint32_t or uint64_t. kPoly: the reflected polynomial without its leading term.
template <class W, W kPoly>
class CrcField {
 public:
  static constexpr unsigned kBits = 8 * sizeof(W);
  static constexpr W kOne = W{1} << (kBits - 1);

  static constexpr W times_x(W a) { return static_cast<W>((a >> 1) ^ ((a & 1) != 0 ? kPoly : 0)); }

  // a * b, four bits of b at a time: `multiples` holds a times each polynomial of degree under 4.
  static constexpr W multiply(W a, W b) {
    W multiples[16] = {};  // a plain array: with std::array the compile-time evaluation exceeds clang's step limit
    multiples[8] = a;
    multiples[4] = times_x(a);
    multiples[2] = times_x(multiples[4]);
    multiples[1] = times_x(multiples[2]);
    for (unsigned i = 3; i < 16; ++i) {
      const unsigned low = i & (i - 1);  // i without its lowest bit; zero when i is a single bit, whose entry is set already
      if (low != 0) multiples[i] = multiples[low] ^ multiples[i ^ low];
    }
    W product = 0;
    for (unsigned done = 0; done < kBits; done += 4) {  // from the highest power down: Horner's rule with x^4
      product = static_cast<W>((product >> 4) ^ kTimesX4[product & 15] ^ multiples[b & 15]);
      b = static_cast<W>(b >> 4);
    }
    return product;
  }

  // a * x^(8 * bytes): what `bytes` further zero bytes make of a CRC register. At most eight products, one for each non-zero byte of the
  // count; counts below 4 GiB have 4 bytes.
  static W shift(W a, uint64_t bytes) {
    for (size_t digit = 0; bytes != 0 && a != 0; ++digit, bytes >>= 8) {
      if ((bytes & 255) != 0) a = multiply(a, kPowers[digit][bytes & 255]);
    }
    return a;
  }

  // The register after `bytes`: eight table look-ups for each eight bytes ("slicing by 8").
  static W raw(Bytes bytes, W before = 0) {
    uint64_t crc = before;
    const std::byte* p = bytes.data();
    size_t left = bytes.size();
    for (; left >= 8; p += 8, left -= 8) {
      const uint64_t word = load_le<uint64_t>(p) ^ crc;
      uint64_t next = 0;
      for (unsigned i = 0; i < 8; ++i) next ^= kSlices[7 - i][(word >> (8 * i)) & 255];
      crc = next;
    }
    for (; left > 0; ++p, --left) crc = (crc >> 8) ^ kSlices[0][(crc ^ std::to_integer<uint64_t>(*p)) & 255];
    return static_cast<W>(crc);
  }

 private:
  using ByteTable = std::array<W, 256>;

  // The four lowest bits, multiplied by x^4 and reduced (what a plain shift by 4 loses).
  static constexpr std::array<W, 16> make_times_x4() {
    std::array<W, 16> table{};
    for (unsigned i = 0; i < 16; ++i) table[i] = times_x(times_x(times_x(times_x(W{i}))));
    return table;
  }
  static constexpr std::array<W, 16> kTimesX4 = make_times_x4();

  // kPowers[j][d] = x^(8 * d * 256^j): one table for each base-256 digit of a byte count.
  static constexpr std::array<ByteTable, 8> make_powers() {
    std::array<ByteTable, 8> powers{};
    W base = kOne >> 8;
    for (ByteTable& table : powers) {
      table[0] = kOne;
      for (size_t d = 1; d < 256; ++d) table[d] = multiply(table[d - 1], base);
      base = multiply(table[255], base);
    }
    return powers;
  }
  static constexpr std::array<ByteTable, 8> kPowers = make_powers();

  // kSlices[k][b]: the register after byte b and k zero bytes.
  static constexpr std::array<ByteTable, 8> make_slices() {
    std::array<ByteTable, 8> slices{};
    for (unsigned b = 0; b < 256; ++b) {
      W crc = W{b};
      for (unsigned bit = 0; bit < 8; ++bit) crc = times_x(crc);
      slices[0][b] = crc;
    }
    for (size_t k = 1; k < 8; ++k) {
      for (size_t b = 0; b < 256; ++b) slices[k][b] = static_cast<W>((slices[k - 1][b] >> 8) ^ slices[0][slices[k - 1][b] & 255]);
    }
    return slices;
  }
  static constexpr std::array<ByteTable, 8> kSlices = make_slices();
};

using Crc32Field = CrcField<uint32_t, 0xEDB88320u>;
using Crc64Field = CrcField<uint64_t, 0xC96C5795D7870F42u>;

// Carry-less multiplication for CRCs: a long run of bytes folded into a short one with the same raw CRC. Private to base/sums and its
// tests.
//
// 16 bytes are a polynomial over GF(2) whose highest power is the first bit. Multiplying them by x^n and adding the product to the 16 bytes
// n bits further on lets them be dropped: the remainder modulo the CRC's polynomial stays the same. The product needs only x^n, reduced
// beforehand: (lo * x^64 + hi) * x^n = lo * (x^(n+64) mod P) + hi * (x^n mod P), two multiplications of 64 bits. Bits are reflected, which
// makes each product one power of x too high, so the keys are x^(n+63) and x^(n-1). Source: V. Gopal et al., "Fast CRC Computation for
// Generic Polynomials Using PCLMULQDQ Instruction" (Intel, 2009).

struct FoldKey {
  uint64_t lo = 0, hi = 0;  // of the first and of the last 8 bytes
};

// Keys by the distance of a step in bytes: to the next 16 bytes, or past all registers.
struct FoldKeys {
  FoldKey by_16, by_64, by_128, by_256;
};

template <class Field>
constexpr FoldKeys fold_keys() {
  // x^n mod P, as the highest of 64 bits.
  const auto power = [](unsigned n) {
    auto a = Field::kOne;
    for (; n > 0; --n) a = Field::times_x(a);
    return uint64_t{a} << (64 - Field::kBits);
  };
  const auto key = [&](unsigned bytes) { return FoldKey{power(8 * bytes + 63), power(8 * bytes - 1)}; };
  return {key(16), key(64), key(128), key(256)};
}

// Folds the front of `bytes` into 16 bytes at `out`. Returns how many bytes were folded; 0: the run is too short, or the processor lacks
// the instruction.
inline constexpr size_t kFolded = 16;
using Fold = size_t (*)(const FoldKeys& keys, Bytes bytes, std::byte* out);

// The fastest that runs on this processor. all_folds() lists all of them, fastest first.
Fold best_fold();
struct NamedFold {
  const char* name;
  Fold fold;
  bool runs_here;
};
std::span<const NamedFold> all_folds();

}  // namespace dcp
