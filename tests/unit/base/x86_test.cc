#include <catch2/catch_test_macros.hpp>

#include "base/machine.h"

namespace dcp {

// The compiler's own answer, where it has one.
#ifdef __x86_64__
TEST_CASE("CPUID says what __builtin_cpu_supports says") {
  __builtin_cpu_init();
  const bool pclmul = __builtin_cpu_supports("pclmul") && __builtin_cpu_supports("sse4.1");
  CHECK(x86_features().pclmul == pclmul);
  CHECK(x86_features().vpclmul == (pclmul && __builtin_cpu_supports("vpclmulqdq") && __builtin_cpu_supports("avx512f")));
  // The compiler names no more of v3 than these; no processor has them without the rest.
  const bool v3 =
      __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi") && __builtin_cpu_supports("bmi2");
  CHECK(x86_features().v3 == v3);
  CHECK(x86_features().v4 ==
        (v3 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512cd") &&
         __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl")));
}
#else
TEST_CASE("other processors have nothing of x86") { CHECK_FALSE(x86_features().pclmul); }
#endif

}  // namespace dcp
