// Host memory as a staging buffer: its pages, their NUMA node, and how much memory there is.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "base/io.h"

namespace dcp {

struct HostMemoryFacts {
  uint64_t total_bytes = 0, available_bytes = 0;
};
HostMemoryFacts host_memory_facts();

// The first numbers of "MemTotal:" and "MemAvailable:" in the form of /proc/meminfo.
HostMemoryFacts parse_meminfo(std::string_view text);

// NUMA nodes with memory, from text such as "0-1,4"; for this machine, {0} if unknown.
std::vector<int> parse_nodes(std::string_view text);
std::vector<int> memory_nodes();

// While this lives, pages that the calling thread touches first come from `node`. -1: from anywhere, as usual. Throws device_failed if the
// machine refuses.
class OnNode {
 public:
  explicit OnNode(int node);
  ~OnNode();
  OnNode(const OnNode&) = delete;
  OnNode& operator=(const OnNode&) = delete;

 private:
  bool set_ = false;
};

enum class Pages : uint8_t { kOrdinary, kHuge };

// Anonymous memory, not touched yet. kHuge: from the huge page pool if it has enough, else 2 MiB pages where the kernel provides them
// (madvise); `from_pool` says which. Throws memory_out.
class HostMemory {
 public:
  HostMemory(uint64_t bytes, Pages pages);
  ~HostMemory();
  HostMemory(const HostMemory&) = delete;
  HostMemory& operator=(const HostMemory&) = delete;

  std::byte* data() const { return data_; }
  uint64_t bytes() const { return bytes_; }
  bool from_pool() const { return from_pool_; }
  void touch();  // a write to every page

 private:
  std::byte* data_ = nullptr;  // aligned to 2 MiB for huge pages
  void* mapped_ = nullptr;
  uint64_t bytes_ = 0, mapped_bytes_ = 0;
  bool from_pool_ = false;
};

}  // namespace dcp
