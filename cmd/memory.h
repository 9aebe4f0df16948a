// What --max-memory leaves.
#pragma once

#include <cstdint>
#include <string>

#include "context.h"
#include "plan/plan.h"

namespace dcp::cmd {

// The number of --threads, or the default for 0.
unsigned wanted_workers(unsigned threads, bool one_of_several);

// The default of commands that only read: half of the machine's memory, or of its share of it (cgroup), at most 16 GiB. A checkpoint of
// 10^7 chunks takes 3.3 GiB; what takes more than half is not read while something else runs.
inline constexpr const char* kReadingDefault = "half of the machine's, at most 16GiB";
void add_threads(Command& command, unsigned& threads, const std::string& group);
void add_max_memory(Command& command, std::string& max_memory, const std::string& group);
uint64_t reading_cap(const std::string& max_memory, const Context& context);  // "": the default

// From here on no allocation goes beyond the cap (base/heap.h). LibTorch's threads do not expect that one fails: not where a module is
// loaded.
void hold_heap(uint64_t cap, const Context& context);

// What metadata and objects may take beside what is held already. They may always take a little: a cap that is far too small is told by
// fit_workers, which knows what is needed.
uint64_t memory_left(uint64_t cap);

struct WorkerNeeds {
  unsigned wanted = 1;
  uint64_t least_bytes = 1 << 20;  // that a worker takes at least, whatever the plan
};
// Workers that fit under the cap beside what is held already; `planned`: the peak with them, in bytes. Throws memory_cap with what one
// worker needs.
unsigned fit_workers(const Plan& plan, const std::string& path, uint64_t cap, const WorkerNeeds& needs, uint64_t& planned);

}  // namespace dcp::cmd
