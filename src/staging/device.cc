#include "staging/device.h"

#include <string>

#include "modules/loader.h"

namespace dcp {
namespace {

void check(int code, const char* what, const DcpctlReason& error) {
  if (code != 0) fail(ProblemId::device_failed, {}, std::string(what) + ": " + error.text);
}

}  // namespace

uint32_t device_count(const DcpctlDeviceTable& table) {
  uint32_t devices = 0;
  DcpctlReason error{};
  if (table.count(&devices, &error) != 0) fail(ProblemId::device_missing, {}, error.text);
  return devices;
}

Device::Device(const DcpctlDeviceTable& table, uint32_t index) : table_(table), index_(index) {
  DcpctlReason error{};
  check(table_.open(index, &handle_, &error), "opening the device", error);
}

Device::~Device() { table_.close(handle_); }

DcpctlDeviceFacts Device::facts() const {
  DcpctlDeviceFacts facts{};
  DcpctlReason error{};
  check(table_.describe(index_, &facts, &error), "describing the device", error);
  return facts;
}

DcpctlDeviceLink Device::link() const {
  DcpctlDeviceLink link{};
  DcpctlReason error{};
  check(table_.link(handle_, &link, &error), "the device's link", error);
  return link;
}

Device::Memory Device::allocate(uint64_t bytes) {
  void* at = nullptr;
  DcpctlReason error{};
  check(table_.allocate(handle_, bytes, &at, &error), "device memory", error);
  return {static_cast<std::byte*>(at), [this, bytes](std::byte* p) { table_.release(handle_, p, bytes); }};
}

Device::Memory Device::allocate_pinned(uint64_t bytes) {
  void* at = nullptr;
  DcpctlReason error{};
  check(table_.allocate_pinned(handle_, bytes, &at, &error), "pinned memory", error);
  return {static_cast<std::byte*>(at), [this, bytes](std::byte* p) { table_.release_pinned(handle_, p, bytes); }};
}

std::shared_ptr<void> Device::pin(std::byte* host, uint64_t bytes) {
  DcpctlReason error{};
  check(table_.pin(handle_, host, bytes, &error), "pinning", error);
  return {static_cast<void*>(host), [this, bytes](void* p) { table_.unpin(handle_, p, bytes); }};
}

Device::Stream Device::stream() {
  void* stream = nullptr;
  DcpctlReason error{};
  check(table_.open_stream(handle_, &stream, &error), "a stream", error);
  return {stream, [this](void* s) { table_.close_stream(handle_, s); }};
}

void Device::upload(std::byte* to, Bytes from) {
  DcpctlReason error{};
  check(table_.upload(handle_, to, from.data(), from.size(), &error), "a copy to the device", error);
}

void Device::copy(const Stream& stream, std::byte* to_host, const std::byte* from, uint64_t bytes) {
  DcpctlReason error{};
  check(table_.copy(handle_, stream.get(), to_host, from, bytes, &error), "a copy to the host", error);
}

void Device::stamp(const Stream& stream, std::byte* at, uint64_t bytes, uint8_t value) {
  DcpctlReason error{};
  check(table_.stamp(handle_, stream.get(), at, bytes, value, &error), "writing on the device", error);
}

void Device::work(const Stream& stream, uint64_t nanoseconds) {
  DcpctlReason error{};
  check(table_.work(handle_, stream.get(), nanoseconds, &error), "work on the device", error);
}

Device::Gather Device::prepare_gather(const std::vector<DcpctlDevicePiece>& pieces) {
  void* gather = nullptr;
  DcpctlReason error{};
  check(table_.prepare_gather(handle_, pieces.data(), pieces.size(), &gather, &error), "preparing a gathering", error);
  return {gather, [this](void* g) { table_.release_gather(handle_, g); }};
}

void Device::gather(const Stream& stream, const Gather& gather, std::byte* to) {
  DcpctlReason error{};
  check(table_.gather(handle_, stream.get(), gather.get(), to, &error), "gathering", error);
}

void Device::wait(const Stream& stream) {
  DcpctlReason error{};
  check(table_.wait(handle_, stream.get(), &error), "the stream", error);
}

const DcpctlDeviceTable& cuda_device_table(const std::vector<std::string>& module_folders) {
  const DcpctlDeviceTable& table = open_module(module_folders, kCudaModule);
  if (device_count(table) == 0) fail(ProblemId::device_missing, {}, "no GPU");
  return table;
}

}  // namespace dcp
