// The C table between dcpctl and what copies from a device's memory: libdcpctl_cuda.so fills one, the CPU stand-in of staging/ another.
//
// Rules as in table.h. Memory is the device's until released; what is given to an asynchronous call must stay as it is until wait() of its
// stream. One stream is used by one thread at a time.
#pragma once

#include "modules/table.h"

extern "C" {

enum { kDcpctlDeviceAbi = 1 };

// Zero: not known, or there is none.
struct DcpctlDeviceFacts {
  char name[96];
  char bus_id[32];                               // PCI, "0000:1b:00.0"
  uint32_t pcie_generation_max, pcie_width_max;  // of card and slot together
  uint32_t nvlink_version, nvlink_links;         // to other GPUs; copies to the host go over PCIe all the same
  int32_t numa_node;                             // -1: not known
  uint32_t has_gather;                           // gather() copies by a kernel
  uint64_t memory_bytes, free_bytes;
};

// The link to the host as it is now. An idle one reports a lower generation: ask while a copy runs.
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
  // Host memory that the device copies to without a detour: page-locked.
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
  // A gathering of many pieces into one buffer is prepared once.
  int (*prepare_gather)(void* handle, const DcpctlDevicePiece* pieces, uint64_t count, void** gather, DcpctlReason* why);
  void (*release_gather)(void* handle, void* gather);
  int (*gather)(void* handle, void* stream, void* gather, void* to, DcpctlReason* why);
  int (*wait)(void* handle, void* stream, DcpctlReason* why);
};

}  // extern "C"
