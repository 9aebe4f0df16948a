#include "kernels/isa.h"

#ifdef DCPCTL_X86_LEVELS
#include <cpuid.h>
#endif

namespace dcp {
namespace {

#ifdef DCPCTL_X86_LEVELS
// The parts of x86-64-v3 that __builtin_cpu_supports of clang 14 has no names for. Those that it has imply that the operating system
// saves the registers (XGETBV).
bool has_rest_of_v3() {
  constexpr unsigned kMovbe = 1u << 22, kF16c = 1u << 29, kLzcnt = 1u << 5;
  unsigned a = 0, b = 0, c = 0, d = 0;
  if (__get_cpuid(1, &a, &b, &c, &d) == 0 || (c & (kMovbe | kF16c)) != (kMovbe | kF16c)) return false;
  return __get_cpuid(0x80000001, &a, &b, &c, &d) != 0 && (c & kLzcnt) != 0;
}

Isa look_up() {
  __builtin_cpu_init();
  const bool v3 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi") &&
                  __builtin_cpu_supports("bmi2") && has_rest_of_v3();
  if (!v3) return Isa::kBaseline;
  const bool v4 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512cd") &&
                  __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
  return v4 ? Isa::kAvx512 : Isa::kAvx2;
}
#else
Isa look_up() { return Isa::kBaseline; }
#endif

}  // namespace

Isa best_isa() {
  static const Isa best = look_up();
  return best;
}

const codecs::Table& codecs_for([[maybe_unused]] Isa isa) {
#ifdef DCPCTL_X86_LEVELS
  if (isa == Isa::kAvx512) return codecs::avx512::kTable;
  if (isa == Isa::kAvx2) return codecs::avx2::kTable;
#endif
  return codecs::baseline::kTable;
}

}  // namespace dcp
