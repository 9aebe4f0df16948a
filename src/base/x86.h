// What an x86-64 processor has, and the operating system saves the registers of, asked of CPUID itself: __builtin_cpu_supports takes a runtime
// library that not every compiler brings.
#pragma once

namespace dcp {

struct X86Features {
  bool pclmul = false;   // and SSE4.1
  bool vpclmul = false;  // 64 bytes at once, and AVX-512F
  bool v3 = false;       // x86-64-v3, as far as it is above v2
  bool v4 = false;       // x86-64-v4
};

// Determined once; nothing on other processors.
const X86Features& x86_features();

}  // namespace dcp
