#include "staging/cpu_device.h"

#include <sys/mman.h>
#include <sys/sysinfo.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstring>
#include <mutex>
#include <string>
#include <system_error>
#include <vector>

#include "base/workers.h"
#include "staging/host_memory.h"

namespace dcp {
namespace {

using Gather = std::vector<DcpctlDevicePiece>;

int failed(DcpctlReason* why, const std::string& text, int code = errno) {
  std::snprintf(why->text, sizeof why->text, "%s", text.c_str());
  return code == 0 ? -1 : code;
}

int count(uint32_t* devices, DcpctlReason*) {
  *devices = 1;
  return 0;
}

int describe(uint32_t, DcpctlDeviceFacts* facts, DcpctlReason*) {
  *facts = {};
  std::snprintf(facts->name, sizeof facts->name, "host memory");
  facts->numa_node = -1;
  facts->has_gather = 1;
  const HostMemoryFacts host = host_memory_facts();
  facts->memory_bytes = host.total_bytes;
  facts->free_bytes = host.available_bytes;
  return 0;
}

int open_device(uint32_t, void** handle, DcpctlReason*) {
  static char the_only_one;
  *handle = &the_only_one;
  return 0;
}
void close_device(void*) {}
int link_facts(void*, DcpctlDeviceLink* link, DcpctlReason*) {
  *link = {};
  return 0;
}

int allocate(void*, uint64_t bytes, void** at, DcpctlReason* why) {
  void* p = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (p == MAP_FAILED) return failed(why, "mmap of " + std::to_string(bytes) + " bytes: " + std::strerror(errno));
  *at = p;
  return 0;
}
void release(void*, void* at, uint64_t bytes) { munmap(at, bytes); }

int pin(void*, void* host, uint64_t bytes, DcpctlReason* why) {
  if (mlock(host, bytes) == 0) return 0;
  const int code = errno;
  return failed(why, "mlock of " + std::to_string(bytes) + " bytes: " + std::strerror(code) + " (see 'ulimit -l')", code);
}
void unpin(void*, void* host, uint64_t bytes) { munlock(host, bytes); }

int allocate_pinned(void* handle, uint64_t bytes, void** at, DcpctlReason* why) {
  if (const int code = allocate(handle, bytes, at, why)) return code;
  const int code = pin(handle, *at, bytes, why);
  if (code != 0) munmap(*at, bytes);
  return code;
}
void release_pinned(void*, void* at, uint64_t bytes) { munmap(at, bytes); }  // unlocks, too

int open_stream(void*, void** stream, DcpctlReason* why) {
  try {
    *stream = new SerialQueue;
    return 0;
  } catch (const std::system_error& e) {
    return failed(why, std::string("a thread for a stream: ") + e.what(), e.code().value());
  }
}
void close_stream(void*, void* stream) { delete static_cast<SerialQueue*>(stream); }
SerialQueue& queue(void* stream) { return *static_cast<SerialQueue*>(stream); }

int upload(void*, void* to, const void* from, uint64_t bytes, DcpctlReason*) {
  std::memcpy(to, from, bytes);
  return 0;
}

int copy(void*, void* stream, void* to, const void* from, uint64_t bytes, DcpctlReason*) {
  queue(stream).run([=] { std::memcpy(to, from, bytes); });
  return 0;
}

int stamp(void*, void* stream, void* at, uint64_t bytes, uint8_t value, DcpctlReason*) {
  queue(stream).run([=] {
    for (uint64_t offset = 0; offset < bytes; offset += 4096)
      std::memset(static_cast<std::byte*>(at) + offset, value, std::min<uint64_t>(64, bytes - offset));
  });
  return 0;
}

// A step on a GPU does not use the processor, so this one sleeps.
int work(void*, void* stream, uint64_t nanoseconds, DcpctlReason*) {
  queue(stream).run([=] {
    std::mutex mutex;
    std::unique_lock lock(mutex);
    std::condition_variable().wait_for(lock, std::chrono::nanoseconds(nanoseconds), [] { return false; });
  });
  return 0;
}

int prepare_gather(void*, const DcpctlDevicePiece* pieces, uint64_t pieces_count, void** gather, DcpctlReason*) {
  *gather = new Gather(pieces, pieces + pieces_count);
  return 0;
}
void release_gather(void*, void* gather) { delete static_cast<Gather*>(gather); }
int run_gather(void*, void* stream, void* gather, void* to, DcpctlReason*) {
  queue(stream).run([pieces = static_cast<const Gather*>(gather), to] {
    for (const DcpctlDevicePiece& p : *pieces) std::memcpy(static_cast<std::byte*>(to) + p.at, p.from, p.bytes);
  });
  return 0;
}

int wait(void*, void* stream, DcpctlReason* why) {
  try {
    queue(stream).wait();
    return 0;
  } catch (const std::exception& e) {
    return failed(why, e.what(), -1);
  }
}

}  // namespace

const DcpctlDeviceTable& cpu_device_table() {
  static constexpr DcpctlDeviceTable kTable{.header = {.bytes = sizeof(DcpctlDeviceTable), .abi = kDcpctlDeviceAbi, .built_with = ""},
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
  return kTable;
}

}  // namespace dcp
