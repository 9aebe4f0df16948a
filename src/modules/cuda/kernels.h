// Kernels that run on the GPU. nvcc compiles them if there is one (kernels.cu); without it they are replaced by stubs (no_kernels.cc).
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

namespace dcpctl_cuda {

struct Piece {
  const void* from;
  uint64_t at, bytes;
};

bool has_kernels();
// Copies `count` pieces, whose list lies in device memory, into `to`.
cudaError_t gather(cudaStream_t stream, const Piece* pieces, uint64_t count, void* to);
// Keeps one multiprocessor busy for that time.
cudaError_t spin(cudaStream_t stream, uint64_t nanoseconds);

}  // namespace dcpctl_cuda
