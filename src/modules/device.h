// The C table between dcpctl and code that copies from a device's memory: libdcpctl_cuda.so fills one, the CPU stand-in of staging/
// another.
//
// Rules as in table.h. Memory belongs to the device until released; arguments of an asynchronous call must not change until wait() on its
// stream. A stream may be used by one thread at a time.
#pragma once

#include "modules/table.h"

extern "C" {

enum { kDcpctlDeviceAbi = 1 };

// Zero means unknown or none.
struct DcpctlDeviceFacts {
  char name[96];
  char bus_id[32];                               // PCI, "0000:1b:00.0"
  uint32_t pcie_generation_max, pcie_width_max;  // of card and slot together
  uint32_t nvlink_version, nvlink_links;         // to other GPUs; copies to the host still go over PCIe
  int32_t numa_node;                             // -1: not known
  uint32_t has_gather;                           // gather() copies by a kernel
  uint64_t memory_bytes, free_bytes;
};

// The current state of the link to the host. An idle link reports a lower generation: query it while a copy runs.
struct DcpctlDeviceLink {
  uint32_t pcie_generation, pcie_width;
};

struct DcpctlDevicePiece {
  const void* from;  // device memory
  uint64_t at;       // bytes, in the gathered buffer
  uint64_t bytes;
};

struct DcpctlDeviceTable {
  DcpctlModuleHeader header;

  int (*count)(uint32_t* devices, DcpctlReason* why);
  int (*describe)(uint32_t device, DcpctlDeviceFacts* facts, DcpctlReason* why);
  int (*open)(uint32_t device, void** handle, DcpctlReason* why);
  void (*close)(void* handle);
  int (*link)(void* handle, DcpctlDeviceLink* link, DcpctlReason* why);

  int (*allocate)(void* handle, uint64_t bytes, void** at, DcpctlReason* why);
  void (*release)(void* handle, void* at, uint64_t bytes);
  // Page-locked host memory, which the device copies to directly.
  int (*allocate_pinned)(void* handle, uint64_t bytes, void** at, DcpctlReason* why);
  void (*release_pinned)(void* handle, void* at, uint64_t bytes);
  int (*pin)(void* handle, void* host, uint64_t bytes, DcpctlReason* why);  // memory that the caller allocated
  void (*unpin)(void* handle, void* host, uint64_t bytes);

  int (*open_stream)(void* handle, void** stream, DcpctlReason* why);
  void (*close_stream)(void* handle, void* stream);
  int (*upload)(void* handle, void* to, const void* from, uint64_t bytes, DcpctlReason* why);  // done on return
  // In order on a stream, done after wait().
  int (*copy)(void* handle, void* stream, void* to_host, const void* from, uint64_t bytes, DcpctlReason* why);
  int (*stamp)(void* handle, void* stream, void* at, uint64_t bytes, uint8_t value, DcpctlReason* why);  // 64 bytes of every 4096
  int (*work)(void* handle, void* stream, uint64_t nanoseconds, DcpctlReason* why);                      // keeps the device busy
  // Prepares, once, gathering many pieces into one buffer.
  int (*prepare_gather)(void* handle, const DcpctlDevicePiece* pieces, uint64_t count, void** gather, DcpctlReason* why);
  void (*release_gather)(void* handle, void* gather);
  int (*gather)(void* handle, void* stream, void* gather, void* to, DcpctlReason* why);
  int (*wait)(void* handle, void* stream, DcpctlReason* why);
};

}  // extern "C"
