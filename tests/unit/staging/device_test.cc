// The CPU stand-in behind the table: copies, stamps and gatherings are what they say; a table's failure becomes an error with its text.
#include "staging/device.h"

#include <catch2/catch_test_macros.hpp>
#include <cstdio>
#include <cstring>
#include <numeric>

#include "base/error_line.h"
#include "staging/cpu_device.h"

using namespace dcp;
using namespace dcp::test;

namespace {

std::vector<std::byte> counted(size_t bytes) {
  std::vector<std::byte> v(bytes);
  for (size_t i = 0; i < bytes; ++i) v[i] = static_cast<std::byte>(i * 7 + i / 256);
  return v;
}

}  // namespace

TEST_CASE("what is uploaded to the CPU device comes back by any stream") {
  Device device(cpu_device_table(), 0);
  const std::vector<std::byte> bytes = counted(10000);
  const Device::Memory memory = device.allocate(bytes.size());
  device.upload(memory.get(), bytes);
  std::vector<std::byte> back(bytes.size());
  const Device::Stream a = device.stream(), b = device.stream();
  device.copy(a, back.data(), memory.get(), 6000);
  device.copy(b, back.data() + 6000, memory.get() + 6000, 4000);
  device.wait(a);
  device.wait(b);
  CHECK((back == bytes));
}

TEST_CASE("a gathering puts each piece at its place") {
  Device device(cpu_device_table(), 0);
  const std::vector<std::byte> bytes = counted(1000);
  const Device::Memory from = device.allocate(1000), to = device.allocate(300);
  device.upload(from.get(), bytes);
  const Device::Stream stream = device.stream();
  const Device::Gather gather = device.prepare_gather({{from.get() + 500, 0, 100}, {from.get() + 3, 128, 5}});
  device.gather(stream, gather, to.get());
  device.wait(stream);
  CHECK(std::memcmp(to.get(), bytes.data() + 500, 100) == 0);
  CHECK(std::memcmp(to.get() + 128, bytes.data() + 3, 5) == 0);
}

TEST_CASE("a stamp is 64 bytes of every 4096, after the work before it") {
  Device device(cpu_device_table(), 0);
  const Device::Memory memory = device.allocate(8200);
  const Device::Stream stream = device.stream();
  device.work(stream, 1000);
  device.stamp(stream, memory.get(), 8200, 0x35);
  device.wait(stream);
  uint64_t stamped = 0;
  for (uint64_t i = 0; i < 8200; ++i) {
    const bool is = memory.get()[i] == std::byte{0x35};
    stamped += is;
    CHECK(is == (i % 4096 < 64));
  }
  CHECK(stamped == 64 + 64 + 8);
}

TEST_CASE("pinning lasts as long as what pin() gave") {
  Device device(cpu_device_table(), 0);
  std::vector<std::byte> host(100);
  const std::shared_ptr<void> held = device.pin(host.data(), host.size());
  CHECK(held.get() == host.data());
  CHECK(device.facts().memory_bytes >= device.facts().free_bytes);
  CHECK(device.link().pcie_generation == 0);
}

TEST_CASE("the text of a table's failure is in the error") {
  DcpctlDeviceTable table = cpu_device_table();
  table.allocate_pinned = [](void*, uint64_t, void**, DcpctlReason* e) {
    std::snprintf(e->text, sizeof e->text, "no memory left");
    return 2;
  };
  table.count = [](uint32_t*, DcpctlReason* e) {
    std::snprintf(e->text, sizeof e->text, "no driver");
    return 35;
  };
  Device device(table, 0);
  CHECK(error_line([&] { device.allocate_pinned(5); }).find("pinned memory: no memory left") != std::string::npos);
  CHECK(error_id([&] { device.allocate_pinned(5); }) == "device_failed");
  CHECK(error_id([&] { device_count(table); }) == "device_missing");
  CHECK(device_count(cpu_device_table()) == 1);
}
