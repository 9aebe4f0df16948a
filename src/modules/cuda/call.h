// Wraps a call of the CUDA runtime as the table requires: returns 0, or CUDA's code with its text.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdio>

#include "modules/table.h"

namespace dcpctl_cuda {

inline int check(cudaError_t code, const char* what, DcpctlReason* why) {
  if (code == cudaSuccess) return 0;
  cudaGetLastError();  // clears it, or the next call would report it
  std::snprintf(why->text, sizeof why->text, "%s: %s (%s)", what, cudaGetErrorString(code), cudaGetErrorName(code));
  return static_cast<int>(code);
}

}  // namespace dcpctl_cuda
