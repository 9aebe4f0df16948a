#include "memory.h"

#include <sys/sysinfo.h>

#include <algorithm>
#include <fstream>

#include "base/heap.h"
#include "base/limits.h"
#include "base/workers.h"
#include "command.h"
#include "context.h"
#include "exec/execute.h"
#include "together.h"

namespace dcp::cmd {

// Several ranks of one host would only take each other's cores.
unsigned wanted_workers(unsigned threads, bool one_of_several) {
  if (threads > 0) return threads;
  return one_of_several ? static_cast<unsigned>(std::clamp(::get_nprocs(), 2, 16)) : default_workers();
}

void add_threads(Command& c, unsigned& threads, const std::string& group) {
  c.number("-j,--threads", threads, 1u, 1024u, "N", "Worker threads (default: cores, at least 4, at most 16)").in(group);
}

void add_max_memory(Command& c, std::string& max_memory, const std::string& group) {
  c.option("--max-memory", max_memory, "SIZE", std::string("Hard cap on memory (default: ") + kReadingDefault + ")").in(group);
}

namespace {

// The machine's memory, or less where a container has less.
uint64_t machine_bytes() {
  struct sysinfo machine{};
  ::sysinfo(&machine);
  uint64_t bytes = uint64_t{machine.totalram} * machine.mem_unit;
  for (const char* limit : {"/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"}) {
    uint64_t most = 0;
    if (std::ifstream(limit) >> most && most > 0) bytes = std::min(bytes, most);
  }
  return bytes;
}

}  // namespace

uint64_t reading_cap(const std::string& max_memory, const Context& context) {
  return max_memory.empty() ? memory_cap(std::to_string(std::min<uint64_t>(machine_bytes() / 2, 16 * kGiB)), context)
                            : memory_cap(max_memory, context);
}

void hold_heap(uint64_t cap, const Context& context) {
  if (context.joined) return;
  // A cap that is far too small is told by fit_workers, which knows what is needed.
  constexpr uint64_t kLeast = 32 * kMiB;
  const uint64_t resident = resident_bytes(), used = Heap::used();
  const uint64_t other = resident - std::min(resident, used);  // code, stacks
  Heap::set_cap(std::max(cap - std::min(cap, other), used + kLeast));
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
  constexpr uint64_t kAround = 8 * kMiB;  // what the work allocates beside its buffers, for which nobody counts
  const uint64_t room = cap - held > each + kAround ? cap - held - kAround : each;
  const auto workers = static_cast<unsigned>(std::clamp<uint64_t>(room / each, 1, needs.wanted));
  planned = held + workers * each;
  return workers;
}

}  // namespace dcp::cmd
