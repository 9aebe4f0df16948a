#include "app/world.h"

#include <sys/resource.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <new>
#include <optional>
#include <system_error>

#include "app/ranked_run.h"
#include "base/heap.h"

namespace dcp {
namespace {

// VmHWM is this program's own. ru_maxrss is not: it outlives exec, so under a trainer of 50 GB that starts dcpctl it would be 50 GB.
std::optional<uint64_t> status_bytes(std::string_view name) {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);)
    if (line.starts_with(name)) return std::strtoull(line.c_str() + name.size(), nullptr, 10) * 1024;
  return std::nullopt;
}

}  // namespace

bool World::leads() const { return !ranks || ranks->group.leads(); }

void World::check_stop() const {
  if (const int signal = stop.load()) fail(signal == SIGINT ? ProblemId::interrupted : ProblemId::terminated, {});
}

Problem problem_of(const std::exception& error) {
  if (const auto* e = dynamic_cast<const Error*>(&error)) return e->problem();
  if (dynamic_cast<const HeapCapReached*>(&error) != nullptr) {
    Problem p = make_problem(ProblemId::memory_cap, {});
    p.remedy = Remedy::kMoreMemory;
    return p;
  }
  if (dynamic_cast<const std::bad_alloc*>(&error) != nullptr) return make_problem(ProblemId::memory_out, {}, "");
  const auto* code = dynamic_cast<const std::system_error*>(&error);  // of std::thread
  if (code && code->code() == std::errc::resource_unavailable_try_again)
    return make_problem(ProblemId::memory_out, {}, "no more threads: the limit on processes or memory is reached (ulimit -u, ulimit -v)");
  return make_problem(ProblemId::internal, {}, error.what());
}

uint64_t resident_bytes() { return status_bytes("VmRSS:").value_or(0); }

uint64_t peak_rss_bytes() {
  if (const auto peak = status_bytes("VmHWM:")) return *peak;
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<uint64_t>(usage.ru_maxrss) * 1024;
}

uint64_t cap_of(uint64_t extra_memory) { return peak_rss_bytes() + std::min(extra_memory, uint64_t{1} << 56); }

}  // namespace dcp
