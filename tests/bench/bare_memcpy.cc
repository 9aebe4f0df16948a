// bench_bare_memcpy BYTES REPEATS: what the link allows, and so the yardstick of `bench staging`.
// One cudaMemcpyAsync after the other from the GPU into a pinned buffer of BYTES, each waited for. Prints the nanoseconds of each, a line
// each.
#include <cuda_runtime_api.h>

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>

namespace {

void check(cudaError_t code) {
  if (code == cudaSuccess) return;
  std::fprintf(stderr, "bench_bare_memcpy: %s\n", cudaGetErrorString(code));
  std::exit(1);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fputs("usage: bench_bare_memcpy BYTES REPEATS\n", stderr);
    return 2;
  }
  const uint64_t bytes = std::strtoull(argv[1], nullptr, 10), repeats = std::strtoull(argv[2], nullptr, 10);
  void *device = nullptr, *host = nullptr;
  cudaStream_t stream = nullptr;
  check(cudaMalloc(&device, bytes));
  check(cudaMemset(device, 1, bytes));
  check(cudaHostAlloc(&host, bytes, cudaHostAllocDefault));
  check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  for (uint64_t r = 0; r < repeats + 2; ++r) {
    const auto begin = std::chrono::steady_clock::now();
    check(cudaMemcpyAsync(host, device, bytes, cudaMemcpyDeviceToHost, stream));
    check(cudaStreamSynchronize(stream));
    const auto ns = std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now() - begin).count();
    if (r >= 2) std::printf("%lld\n", static_cast<long long>(ns));  // two for warming up
  }
  return 0;
}
