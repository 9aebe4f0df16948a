#include "base/x86.h"

#ifdef __x86_64__
#include <cpuid.h>

#include <cstdint>
#endif

namespace dcp {
namespace {

#ifdef __x86_64__
struct Leaf {
  unsigned a = 0, b = 0, c = 0, d = 0;
};

Leaf leaf(unsigned number) {
  Leaf l;
  __get_cpuid_count(number, 0, &l.a, &l.b, &l.c, &l.d);  // zeros if there is no such leaf
  return l;
}

// The registers that the operating system saves (XCR0).
uint32_t saved_registers() {
  uint32_t low = 0, high = 0;
  asm("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return low;
}

constexpr bool all(uint32_t of, uint32_t bits) { return (of & bits) == bits; }
constexpr uint32_t bit(int n) { return uint32_t{1} << n; }

X86Features look_up() {
  const Leaf one = leaf(1), seven = leaf(7), extended = leaf(0x80000001);
  const uint32_t saved = all(one.c, bit(27)) ? saved_registers() : 0;  // OSXSAVE
  const bool avx = all(saved, 0x06), avx512 = all(saved, 0xe6) && all(seven.b, bit(16));
  X86Features f;
  f.pclmul = all(one.c, bit(1) | bit(19));
  f.vpclmul = f.pclmul && avx512 && all(seven.c, bit(10));
  // FMA, MOVBE, AVX, F16C; BMI1, AVX2, BMI2; LZCNT
  f.v3 = avx && all(one.c, bit(12) | bit(22) | bit(28) | bit(29)) && all(seven.b, bit(3) | bit(5) | bit(8)) && all(extended.c, bit(5));
  f.v4 = f.v3 && avx512 && all(seven.b, bit(17) | bit(28) | bit(30) | bit(31));  // DQ, CD, BW, VL
  return f;
}
#else
X86Features look_up() { return {}; }
#endif

}  // namespace

const X86Features& x86_features() {
  static const X86Features features = look_up();
  return features;
}

}  // namespace dcp
