// What the system's files say of memory, and buffers of both kinds of pages.
#include "staging/host_memory.h"

#include <catch2/catch_test_macros.hpp>

#include "base/limits.h"

using namespace dcp;

TEST_CASE("lists of NUMA nodes") {
  CHECK((parse_nodes("0\n") == std::vector<int>{0}));
  CHECK((parse_nodes("0-1\n") == std::vector<int>{0, 1}));
  CHECK((parse_nodes("0,2-4,7") == std::vector<int>{0, 2, 3, 4, 7}));
  CHECK(parse_nodes("").empty());
  CHECK(parse_nodes("none").empty());
  CHECK(!memory_nodes().empty());
}

TEST_CASE("/proc/meminfo") {
  const HostMemoryFacts facts = parse_meminfo("MemTotal:       24737984 kB\nMemFree:        1 kB\nMemAvailable:   23456789 kB\n");
  CHECK(facts.total_bytes == 24737984 * kKiB);
  CHECK(facts.available_bytes == 23456789 * kKiB);
  CHECK(parse_meminfo("").total_bytes == 0);
  CHECK(host_memory_facts().available_bytes > 0);
}

TEST_CASE("buffers can be written to their last byte, whatever their pages") {
  for (const Pages pages : {Pages::kOrdinary, Pages::kHuge}) {
    for (const uint64_t bytes : {uint64_t{1}, uint64_t{4097}, 3 * kMiB + 5}) {
      HostMemory memory(bytes, pages);
      memory.touch();
      memory.data()[bytes - 1] = std::byte{7};
      CHECK(memory.data()[0] == std::byte{bytes == 1 ? uint8_t{7} : uint8_t{0}});
      if (pages == Pages::kHuge) CHECK(reinterpret_cast<uint64_t>(memory.data()) % (2 * kMiB) == 0);
    }
  }
}

TEST_CASE("memory of the first node can be asked for") {
  const OnNode anywhere(-1);
  HostMemory memory(4096, Pages::kOrdinary);
  memory.touch();
  CHECK(memory.bytes() == 4096);
}
