// libdcpctl_cuda.so: the table of modules/device.h on the CUDA runtime, linked statically. Without a driver its first call says so.
#include "modules/device.h"

#include <cuda_runtime_api.h>

#include <cctype>
#include <cstdio>
#include <string>

#include "modules/cuda/kernels.h"
#include "modules/cuda/nvml.h"

namespace dcpctl_cuda {
namespace {

// Wraps a call of the CUDA runtime as the table requires: returns 0, or CUDA's code with its text.
int check(cudaError_t code, const char* what, DcpctlReason* why) {
  if (code == cudaSuccess) return 0;
  cudaGetLastError();  // clears it, or the next call would report it
  std::snprintf(why->text, sizeof why->text, "%s: %s (%s)", what, cudaGetErrorString(code), cudaGetErrorName(code));
  return static_cast<int>(code);
}

struct Handle {
  int device;
  std::string bus_id;
};

// The list of a gathering, in device memory.
struct Gather {
  Piece* pieces = nullptr;
  uint64_t count = 0;
};

// The runtime keeps the current device for each thread.
int use(void* handle, DcpctlReason* why) { return check(cudaSetDevice(static_cast<Handle*>(handle)->device), "choosing the device", why); }

std::string bus_id_of(int device) {
  char text[32] = "";
  if (cudaDeviceGetPCIBusId(text, sizeof text, device) != cudaSuccess) return "";
  std::string id(text);
  for (char& c : id) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));  // as sysfs has it
  return id;
}

int count(uint32_t* devices, DcpctlReason* why) {
  int n = 0;
  const int code = check(cudaGetDeviceCount(&n), "looking for a GPU", why);
  *devices = static_cast<uint32_t>(n);
  return code;
}

int describe(uint32_t device, DcpctlDeviceFacts* facts, DcpctlReason* why) {
  *facts = {};
  cudaDeviceProp properties{};
  if (const int code = check(cudaGetDeviceProperties(&properties, static_cast<int>(device)), "the device's properties", why)) return code;
  std::snprintf(facts->name, sizeof facts->name, "%.*s", static_cast<int>(sizeof facts->name) - 1, properties.name);
  const std::string bus_id = bus_id_of(static_cast<int>(device));
  std::snprintf(facts->bus_id, sizeof facts->bus_id, "%s", bus_id.c_str());
  const BusFacts bus = bus_facts(bus_id);
  facts->pcie_generation_max = bus.generation_max;
  facts->pcie_width_max = bus.width_max;
  facts->nvlink_version = bus.nvlink_version;
  facts->nvlink_links = bus.nvlink_links;
  facts->numa_node = bus.numa_node;
  facts->has_gather = has_kernels() ? 1 : 0;
  size_t free_bytes = 0, total_bytes = 0;
  if (const int code = check(cudaSetDevice(static_cast<int>(device)), "choosing the device", why)) return code;
  if (const int code = check(cudaMemGetInfo(&free_bytes, &total_bytes), "the device's memory", why)) return code;
  facts->memory_bytes = total_bytes;
  facts->free_bytes = free_bytes;
  return 0;
}

int open_device(uint32_t device, void** handle, DcpctlReason* why) {
  if (const int code = check(cudaSetDevice(static_cast<int>(device)), "choosing the device", why)) return code;
  *handle = new Handle{static_cast<int>(device), bus_id_of(static_cast<int>(device))};
  return 0;
}
void close_device(void* handle) { delete static_cast<Handle*>(handle); }

int link_facts(void* handle, DcpctlDeviceLink* link, DcpctlReason*) {
  const BusLink now = bus_link(static_cast<Handle*>(handle)->bus_id);
  *link = {now.generation, now.width};
  return 0;
}

int allocate(void* handle, uint64_t bytes, void** at, DcpctlReason* why) {
  const int code = use(handle, why);
  return code != 0 ? code : check(cudaMalloc(at, bytes), "cudaMalloc", why);
}
void release(void*, void* at, uint64_t) { cudaFree(at); }

int allocate_pinned(void* handle, uint64_t bytes, void** at, DcpctlReason* why) {
  const int code = use(handle, why);
  return code != 0 ? code : check(cudaHostAlloc(at, bytes, cudaHostAllocDefault), "cudaHostAlloc", why);
}
void release_pinned(void*, void* at, uint64_t) { cudaFreeHost(at); }

int pin(void* handle, void* host, uint64_t bytes, DcpctlReason* why) {
  const int code = use(handle, why);
  return code != 0 ? code : check(cudaHostRegister(host, bytes, cudaHostRegisterDefault), "cudaHostRegister", why);
}
void unpin(void*, void* host, uint64_t) { cudaHostUnregister(host); }

int open_stream(void* handle, void** stream, DcpctlReason* why) {
  if (const int code = use(handle, why)) return code;
  cudaStream_t s = nullptr;
  const int code = check(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking), "a stream", why);
  *stream = s;
  return code;
}
void close_stream(void*, void* stream) { cudaStreamDestroy(static_cast<cudaStream_t>(stream)); }
cudaStream_t stream_of(void* stream) { return static_cast<cudaStream_t>(stream); }

int upload(void* handle, void* to, const void* from, uint64_t bytes, DcpctlReason* why) {
  const int code = use(handle, why);
  return code != 0 ? code : check(cudaMemcpy(to, from, bytes, cudaMemcpyHostToDevice), "a copy to the device", why);
}

int copy(void* handle, void* stream, void* to, const void* from, uint64_t bytes, DcpctlReason* why) {
  const int code = use(handle, why);
  return code != 0 ? code : check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToHost, stream_of(stream)), "cudaMemcpyAsync", why);
}

int stamp(void* handle, void* stream, void* at, uint64_t bytes, uint8_t value, DcpctlReason* why) {
  constexpr uint64_t kEvery = 4096, kWidth = 64;
  if (const int code = use(handle, why)) return code;
  const uint64_t rows = bytes / kEvery, rest = bytes % kEvery;
  if (rows > 0)
    if (const int code = check(cudaMemset2DAsync(at, kEvery, value, kWidth, rows, stream_of(stream)), "cudaMemset2DAsync", why))
      return code;
  if (rest == 0) return 0;
  return check(cudaMemsetAsync(static_cast<char*>(at) + rows * kEvery, value, rest < kWidth ? rest : kWidth, stream_of(stream)),
               "cudaMemsetAsync", why);
}

int work(void* handle, void* stream, uint64_t nanoseconds, DcpctlReason* why) {
  const int code = use(handle, why);
  return code != 0 ? code : check(spin(stream_of(stream), nanoseconds), "a kernel", why);
}

int prepare_gather(void* handle, const DcpctlDevicePiece* pieces, uint64_t pieces_count, void** out, DcpctlReason* why) {
  static_assert(sizeof(Piece) == sizeof(DcpctlDevicePiece));
  if (const int code = use(handle, why)) return code;
  Gather g{.count = pieces_count};
  void* list = nullptr;
  if (const int code = check(cudaMalloc(&list, pieces_count * sizeof(Piece)), "cudaMalloc", why)) return code;
  g.pieces = static_cast<Piece*>(list);
  if (const int code = check(cudaMemcpy(list, pieces, pieces_count * sizeof(Piece), cudaMemcpyHostToDevice), "a copy to the device", why)) {
    cudaFree(list);
    return code;
  }
  *out = new Gather(g);
  return 0;
}
void release_gather(void*, void* prepared) {
  const auto* g = static_cast<Gather*>(prepared);
  cudaFree(g->pieces);
  delete g;
}
int run_gather(void* handle, void* stream, void* prepared, void* to, DcpctlReason* why) {
  const int code = use(handle, why);
  const auto* g = static_cast<Gather*>(prepared);
  return code != 0 ? code : check(gather(stream_of(stream), g->pieces, g->count, to), "gathering", why);
}

int wait(void* handle, void* stream, DcpctlReason* why) {
  const int code = use(handle, why);
  return code != 0 ? code : check(cudaStreamSynchronize(stream_of(stream)), "the stream", why);
}

constexpr DcpctlDeviceTable kTable{
    .header = {.bytes = sizeof(DcpctlDeviceTable), .abi = kDcpctlDeviceAbi, .built_with = "CUDA " DCPCTL_CUDA_VERSION},
    .count = count,
    .describe = describe,
    .open = open_device,
    .close = close_device,
    .link = link_facts,
    .allocate = allocate,
    .release = release,
    .allocate_pinned = allocate_pinned,
    .release_pinned = release_pinned,
    .pin = pin,
    .unpin = unpin,
    .open_stream = open_stream,
    .close_stream = close_stream,
    .upload = upload,
    .copy = copy,
    .stamp = stamp,
    .work = work,
    .prepare_gather = prepare_gather,
    .release_gather = release_gather,
    .gather = run_gather,
    .wait = wait};

}  // namespace
}  // namespace dcpctl_cuda

extern "C" __attribute__((visibility("default"))) const DcpctlDeviceTable* dcpctl_device() { return &dcpctl_cuda::kTable; }
