// What --max-memory leaves.
#pragma once

#include <cstdint>
#include <string>

#include "plan/plan.h"

namespace dcp::cmd {

// The number of --threads, or the default for 0.
unsigned wanted_workers(unsigned threads, bool one_of_several);

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
