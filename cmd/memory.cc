#include "memory.h"

#include <sys/sysinfo.h>

#include <algorithm>

#include "base/limits.h"
#include "base/workers.h"
#include "context.h"
#include "exec/execute.h"

namespace dcp::cmd {

// Several ranks of one host would only take each other's cores.
unsigned wanted_workers(unsigned threads, bool one_of_several) {
  if (threads > 0) return threads;
  return one_of_several ? static_cast<unsigned>(std::clamp(::get_nprocs(), 2, 16)) : default_workers();
}

uint64_t memory_left(uint64_t cap) { return std::max(cap - std::min(cap, peak_rss_bytes()), 8 * kMiB); }

unsigned fit_workers(const Plan& plan, const std::string& path, uint64_t cap, const WorkerNeeds& needs, uint64_t& planned) {
  const uint64_t held = peak_rss_bytes() + execute_bytes(plan) + plan.files.size() * 16;
  const uint64_t each = std::max(plan.worker_bytes, needs.least_bytes);
  planned = held + each;
  if (held + each > cap) {
    Problem p = make_problem(ProblemId::memory_cap, {.path = path}, human_bytes(cap), human_bytes(held + each) + " or more");
    p.hint = "give --max-memory " + std::to_string((held + each) / kMiB + 8) + "MiB";
    throw Error(std::move(p));
  }
  const auto workers = static_cast<unsigned>(std::clamp<uint64_t>((cap - held) / each, 1, needs.wanted));
  planned = held + workers * each;
  return workers;
}

}  // namespace dcp::cmd
