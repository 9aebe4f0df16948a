#include "staging/host_memory.h"

#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <charconv>
#include <cstring>

#include "base/limits.h"
#include "base/machine.h"

namespace dcp {
namespace {

constexpr uint64_t kHugePage = 2 * kMiB;
constexpr uint64_t kPage = 4096;

// linux/mempolicy.h
constexpr int kDefaultPolicy = 0, kBindPolicy = 2;

uint64_t round_up(uint64_t bytes, uint64_t unit) { return (bytes + unit - 1) / unit * unit; }

}  // namespace

HostMemoryFacts parse_meminfo(std::string_view text) {
  const auto kib = [&](std::string_view name) {
    const size_t at = text.find(name);
    uint64_t number = 0;
    if (at == std::string_view::npos) return number;
    const size_t digits = text.find_first_of("0123456789", at + name.size());
    if (digits != std::string_view::npos) std::from_chars(text.data() + digits, text.data() + text.size(), number);
    return number * kKiB;
  };
  return {.total_bytes = kib("MemTotal:"), .available_bytes = kib("MemAvailable:")};
}

HostMemoryFacts host_memory_facts() { return parse_meminfo(kernel_text("/proc/meminfo")); }

std::vector<int> parse_nodes(std::string_view text) {
  std::vector<int> nodes;
  const char* at = text.data();
  const char* const end = text.data() + text.size();
  while (at < end) {
    int first = 0;
    auto read = std::from_chars(at, end, first);
    if (read.ec != std::errc{}) break;
    int last = first;
    if (read.ptr < end && *read.ptr == '-') read = std::from_chars(read.ptr + 1, end, last);
    for (int n = first; n <= last; ++n) nodes.push_back(n);
    at = read.ptr < end && *read.ptr == ',' ? read.ptr + 1 : end;
  }
  return nodes;
}

std::vector<int> memory_nodes() {
  const std::vector<int> nodes = parse_nodes(kernel_text("/sys/devices/system/node/has_memory"));
  return nodes.empty() ? std::vector<int>{0} : nodes;
}

OnNode::OnNode(int node) {
  if (node < 0) return;
  std::array<unsigned long, 16> mask{};
  constexpr unsigned kBits = 8 * sizeof(unsigned long);
  if (static_cast<unsigned>(node) >= kBits * mask.size()) fail(ProblemId::device_failed, {}, "NUMA node " + std::to_string(node));
  mask[static_cast<unsigned>(node) / kBits] = 1ul << (static_cast<unsigned>(node) % kBits);
  if (syscall(SYS_set_mempolicy, kBindPolicy, mask.data(), kBits * mask.size()) != 0)
    fail(ProblemId::device_failed, {}, "memory of NUMA node " + std::to_string(node) + ": " + std::strerror(errno));
  set_ = true;
}

OnNode::~OnNode() {
  if (set_) syscall(SYS_set_mempolicy, kDefaultPolicy, nullptr, 0);
}

HostMemory::HostMemory(uint64_t bytes, Pages pages) : bytes_(bytes) {
  const int flags = MAP_PRIVATE | MAP_ANONYMOUS;
  const auto map = [&](uint64_t length, int more) {
    mapped_bytes_ = length;
    mapped_ = mmap(nullptr, length, PROT_READ | PROT_WRITE, flags | more, -1, 0);
    return mapped_ != MAP_FAILED;
  };
  if (pages == Pages::kHuge && map(round_up(bytes, kHugePage), MAP_HUGETLB)) {
    from_pool_ = true;
  } else if (!map(pages == Pages::kHuge ? round_up(bytes, kHugePage) + kHugePage : bytes, 0)) {
    fail(ProblemId::memory_out, {}, std::to_string(bytes) + " bytes: " + std::strerror(errno));
  }
  data_ = static_cast<std::byte*>(mapped_);
  if (pages == Pages::kOrdinary || from_pool_) return;
  data_ += round_up(reinterpret_cast<uint64_t>(data_), kHugePage) - reinterpret_cast<uint64_t>(data_);
  madvise(data_, round_up(bytes, kHugePage), MADV_HUGEPAGE);  // only a hint: without huge pages, ordinary ones work
}

HostMemory::~HostMemory() { munmap(mapped_, mapped_bytes_); }

void HostMemory::touch() {
  for (uint64_t at = 0; at < bytes_; at += kPage) *reinterpret_cast<volatile char*>(data_ + at) = 0;
}

}  // namespace dcp
