// What a cap on memory leaves: to metadata, to workers, to the heap as a whole.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "app/world.h"
#include "plan/plan.h"

namespace dcp {

// Worker threads: as many as asked for, or the default for 0. `one_of_several`: ranks of a host would only take each other's cores.
unsigned wanted_workers(unsigned threads, bool one_of_several);

// For what only reads, where nothing else is asked for: half of the machine's memory, or of its share of it (cgroup), at most 16 GiB. A
// checkpoint of 10^7 chunks takes 3.3 GiB; what takes more than half is not read while something else runs.
uint64_t default_reading_cap();

// The cap, with a module's own memory on top. From here on no allocation of the program goes beyond it (base/heap.h). Those of a module are
// not counted: LibTorch's threads do not expect that one fails.
uint64_t take_memory_cap(uint64_t max_memory, const World& world);

// What metadata and objects may take beside what is held already. They may always take a little: a cap that is far too small is refused by
// fit_workers, which knows what is needed.
uint64_t memory_left(uint64_t cap);

struct WorkerNeeds {
  unsigned wanted = 1;
  uint64_t min_bytes = 1 << 20;  // that a worker takes at least, whatever the plan
};
// Workers that fit under the cap beside what is held already; `planned`: the peak with them, in bytes. Throws memory_cap with what one
// worker needs.
unsigned fit_workers(const Plan& plan, const std::string& path, uint64_t cap, const WorkerNeeds& needs, uint64_t& planned);

}  // namespace dcp
