// The real module, where it was built: it opens, and without a GPU says so in words; with one it copies as the CPU stand-in does.
#include <catch2/catch_test_macros.hpp>
#include <cstring>

#include "base/error_line.h"
#include "staging/device.h"

using namespace dcp;
using namespace dcp::test;

TEST_CASE("the CUDA module opens; a machine without a GPU is told apart from a build without the module") {
  CHECK(error_id([] { cuda_device_table({"/nonexistent"}); }) == "module_missing");
  try {
    const DcpctlDeviceTable& table = cuda_device_table({DCPCTL_CUDA_MODULE});
    CHECK(device_count(table) > 0);
  } catch (const Error& e) {
    CHECK(e.problem().id == ProblemId::device_missing);
    CHECK(class_of(e.problem().id) == ProblemClass::kLacking);
    CHECK(e.problem().got.starts_with("looking for a GPU: "));
    SKIP(e.problem().got);
  }
}

TEST_CASE("a GPU copies, gathers and stamps as the CPU stand-in does") {
  const DcpctlDeviceTable* table = nullptr;
  try {
    table = &cuda_device_table({DCPCTL_CUDA_MODULE});
  } catch (const Error& e) {
    SKIP(e.problem().got);
  }
  Device device(*table, 0);
  constexpr uint64_t kBytes = 3 << 20;
  std::vector<std::byte> bytes(kBytes);
  for (size_t i = 0; i < kBytes; ++i) bytes[i] = static_cast<std::byte>(i * 7 + i / 251);
  const Device::Memory memory = device.allocate(kBytes), gathered = device.allocate(4096);
  device.upload(memory.get(), bytes);
  const Device::Memory host = device.allocate_pinned(kBytes);
  const Device::Stream stream = device.stream();
  device.work(stream, 1'000'000);
  device.copy(stream, host.get(), memory.get(), kBytes);
  device.wait(stream);
  CHECK(std::memcmp(host.get(), bytes.data(), kBytes) == 0);
  const Device::Gather gather = device.prepare_gather({{memory.get() + 512, 0, 1000}, {memory.get() + 1024 * 512, 1024, 77}});
  device.gather(stream, gather, gathered.get());
  device.copy(stream, host.get(), gathered.get(), 1024 + 77);
  device.wait(stream);
  CHECK(std::memcmp(host.get(), bytes.data() + 512, 1000) == 0);
  CHECK(std::memcmp(host.get() + 1024, bytes.data() + 1024 * 512, 77) == 0);
  device.stamp(stream, memory.get(), 5000, 0x31);
  device.copy(stream, host.get(), memory.get(), 5000);
  device.wait(stream);
  for (size_t i = 0; i < 5000; ++i) REQUIRE(host.get()[i] == (i % 4096 < 64 ? std::byte{0x31} : bytes[i]));
  CHECK(device.facts().memory_bytes > kBytes);
}
