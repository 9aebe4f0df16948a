// Carry-less multiplication for CRCs: a long run of bytes folded into a short one with the same raw CRC. Private to base/sums and its
// tests.
//
// 16 bytes are a polynomial over GF(2) whose highest power is the first bit. Multiplying them by x^n and adding the product to the 16 bytes
// n bits further on lets them be dropped: the remainder modulo the CRC's polynomial stays the same. The product needs only x^n, reduced
// beforehand: (lo * x^64 + hi) * x^n = lo * (x^(n+64) mod P) + hi * (x^n mod P), two multiplications of 64 bits. Bits are reflected, which
// makes each product one power of x too high, so the keys are x^(n+63) and x^(n-1). Source: V. Gopal et al., "Fast CRC Computation for
// Generic Polynomials Using PCLMULQDQ Instruction" (Intel, 2009).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/bytes.h"
#include "base/crc_field.h"

namespace dcp {

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
