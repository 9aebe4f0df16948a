#include "app/resources.h"

#include <sys/resource.h>
#include <sys/sysinfo.h>

#include <algorithm>
#include <optional>

#include "app/ranked_run.h"
#include "base/heap.h"
#include "base/limits.h"
#include "base/machine.h"
#include "base/text.h"
#include "catalog/data_files.h"
#include "catalog/placements.h"
#include "exec/execute.h"

namespace dcp {
namespace {

constexpr rlim_t kOtherFiles = 48;  // standard streams, locks, folders, and what workers hold past its eviction
constexpr rlim_t kMinFiles = 16, kMaxFiles = DataFiles::kMax + kMaxRanks + kOtherFiles;

// The machine's memory, or less where a container or a job has less.
uint64_t machine_bytes() {
  struct sysinfo machine{};
  ::sysinfo(&machine);
  const uint64_t bytes = uint64_t{machine.totalram} * machine.mem_unit;
  const std::optional<MemoryLimit> limit = own_memory_limit();
  return limit ? std::min(bytes, limit->bytes) : bytes;
}

}  // namespace

unsigned wanted_workers(unsigned threads, bool one_of_several) {
  if (threads > 0) return threads;
  return one_of_several ? static_cast<unsigned>(std::clamp(::get_nprocs(), 2, 16)) : default_workers();
}

unsigned reading_workers(unsigned threads, const World& world, const std::string& path) {
  const unsigned wanted = wanted_workers(threads, world.ranks != nullptr);
  return threads > 0 ? wanted : std::max(wanted, world.store.read_capabilities(path).requests);
}

UnitOptions units_of(const World& world, const std::string& path, uint64_t max_memory) {
  UnitOptions units;
  units.plane_bytes = plane_bytes(max_memory);
  units.unit_bytes = std::max(units.unit_bytes, std::min(world.store.read_capabilities(path).request_bytes, units.plane_bytes));
  return units;
}

uint64_t default_reading_cap() { return std::min<uint64_t>(machine_bytes() / 2, 16 * kGiB); }

uint64_t take_memory_cap(uint64_t max_memory, const World& world) {
  if (world.ranks) max_memory += world.ranks->module_bytes;
  // A cap that is far too small is refused by fit_workers, which knows what is needed.
  constexpr uint64_t kMin = 32 * kMiB;
  constexpr uint64_t kLater = 6 * kMiB;  // code that has not run yet, and what lies between allocations
  const uint64_t resident = resident_bytes(), used = Heap::used();
  const uint64_t other = resident - std::min(resident, used) + kLater;  // code, stacks
  Heap::set_cap(std::max(max_memory - std::min(max_memory, other), used + kMin));
  return max_memory;
}

uint64_t memory_left(uint64_t cap) { return std::max(cap - std::min(cap, peak_rss_bytes()), 8 * kMiB); }

unsigned fit_workers(const Plan& plan, const std::string& path, uint64_t cap, const WorkerNeeds& needs, uint64_t& planned) {
  const uint64_t held = peak_rss_bytes() + execute_bytes(plan) + plan.files.size() * 16;
  const uint64_t each = std::max(plan.worker_bytes, needs.min_bytes);
  planned = held + each;
  if (held + each > cap) {
    throw Error(with_remedy(make_problem(ProblemId::memory_cap, {.path = path}, human_bytes(cap), human_bytes(held + each) + " or more"),
                            Remedy::kMoreMemory, held + each + 8 * kMiB));
  }
  constexpr uint64_t kAround = 8 * kMiB;  // what the work allocates beside its buffers, for which nobody counts
  const uint64_t room = cap - held > each + kAround ? cap - held - kAround : each;
  const auto workers = static_cast<unsigned>(std::clamp<uint64_t>(room / each, 1, needs.wanted));
  planned = held + workers * each;
  return workers;
}

OpenFileShares open_file_shares() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return {.inputs = kMinFiles, .outputs = kMinFiles};
  const rlim_t ours = std::min(limit.rlim_cur, kMaxFiles) - std::min(limit.rlim_cur, kOtherFiles);
  const rlim_t inputs = std::clamp<rlim_t>(ours / 2, kMinFiles, DataFiles::kMax);
  return {.inputs = inputs, .outputs = std::max(ours - std::min(ours, inputs), kMinFiles)};
}

void raise_open_file_limit() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= std::min(limit.rlim_max, kMaxFiles)) return;
  limit.rlim_cur = std::min(limit.rlim_max, kMaxFiles);
  (void)!setrlimit(RLIMIT_NOFILE, &limit);  // refused: fewer files are open at once
}

}  // namespace dcp
