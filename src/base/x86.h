// Features of an x86-64 processor whose registers the operating system saves. They are read from CPUID: __builtin_cpu_supports needs a
// runtime library that not every compiler has.
#pragma once

namespace dcp {

struct X86Features {
  bool pclmul = false;   // and SSE4.1
  bool vpclmul = false;  // 64 bytes at once, and AVX-512F
  bool v3 = false;       // x86-64-v3, as far as it is above v2
  bool v4 = false;       // x86-64-v4
};

// Determined once. On other processors, all are false.
const X86Features& x86_features();

}  // namespace dcp
