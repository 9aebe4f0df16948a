// A build with the CUDA Toolkit's libraries but without nvcc: pieces are copied one by one, and a step waits on the host.
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <vector>

#include "modules/cuda/kernels.h"

namespace dcpctl_cuda {
namespace {

void CUDART_CB sleep_for(void* nanoseconds) {
  std::mutex mutex;
  std::unique_lock lock(mutex);
  std::condition_variable().wait_for(lock, std::chrono::nanoseconds(reinterpret_cast<uint64_t>(nanoseconds)), [] { return false; });
}

}  // namespace

bool has_kernels() { return false; }

cudaError_t gather(cudaStream_t stream, const Piece* pieces, uint64_t count, void* to) {
  std::vector<Piece> list(count);
  cudaError_t code = cudaMemcpy(list.data(), pieces, count * sizeof(Piece), cudaMemcpyDeviceToHost);
  for (const Piece& p : list)
    if (code == cudaSuccess) code = cudaMemcpyAsync(static_cast<char*>(to) + p.at, p.from, p.bytes, cudaMemcpyDeviceToDevice, stream);
  return code;
}

cudaError_t spin(cudaStream_t stream, uint64_t nanoseconds) {
  return cudaLaunchHostFunc(stream, sleep_for, reinterpret_cast<void*>(nanoseconds));
}

}  // namespace dcpctl_cuda
