// A device's memory, streams and copies, behind the C table that the CPU stand-in and the CUDA module fill. The last owner of a pointer
// releases the resource. Every failure is device_failed with the device's own text.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "modules/device.h"

namespace dcp {

// The number of devices. Throws device_missing with the reason if the table cannot tell.
uint32_t device_count(const DcpctlDeviceTable& table);

// Must outlive what it returned. Any thread may call it; a stream may be used by one thread at a time.
class Device {
 public:
  using Memory = std::shared_ptr<std::byte>;
  using Stream = std::shared_ptr<void>;
  using Gather = std::shared_ptr<void>;

  Device(const DcpctlDeviceTable& table, uint32_t index);
  ~Device();
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  uint32_t index() const { return index_; }
  DcpctlDeviceFacts facts() const;  // free memory as it is now
  DcpctlDeviceLink link() const;

  Memory allocate(uint64_t bytes);
  Memory allocate_pinned(uint64_t bytes);
  // Pins [host, host + bytes) for the life of the result.
  std::shared_ptr<void> pin(std::byte* host, uint64_t bytes);

  Stream stream();
  void upload(std::byte* to, Bytes from);
  void copy(const Stream& stream, std::byte* to_host, const std::byte* from, uint64_t bytes);
  void stamp(const Stream& stream, std::byte* at, uint64_t bytes, uint8_t value);
  void work(const Stream& stream, uint64_t nanoseconds);
  Gather prepare_gather(const std::vector<DcpctlDevicePiece>& pieces);
  void gather(const Stream& stream, const Gather& gather, std::byte* to);
  void wait(const Stream& stream);

 private:
  const DcpctlDeviceTable& table_;
  uint32_t index_;
  void* handle_ = nullptr;
};

// The GPUs of this machine, through libdcpctl_cuda.so.

// Opens the module (modules/loader.h). Throws module_missing, module_broken, module_differs; device_missing, with the driver's reason,
// where there is no GPU.
const DcpctlDeviceTable& cuda_device_table(const std::vector<std::string>& module_folders);

}  // namespace dcp
