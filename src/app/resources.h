// What this process may use: memory, a cap on which is divided among metadata, workers and the heap as a whole; threads; open files.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "app/world.h"
#include "plan/plan.h"
#include "plan/units.h"

namespace dcp {

// Worker threads: `threads`, or the default for 0. `one_of_several`: fewer, since ranks of a host would compete for its cores.
unsigned wanted_workers(unsigned threads, bool one_of_several);
// The same for reading `path`: as many as its store wants requests, where those are more.
unsigned reading_workers(unsigned threads, const World& world, const std::string& path);

// How the work on `path` is cut: into larger pieces where its store wants larger requests.
UnitOptions units_of(const World& world, const std::string& path, uint64_t max_memory);

// Default cap of commands that only read: half of the machine's memory, or of the cgroup's limit, at most 16 GiB. A checkpoint of 10^7
// chunks takes 3.3 GiB; one that needs more than half should not be read while something else runs.
uint64_t default_reading_cap();

// Sets the cap, plus a module's own memory. From here on no allocation of the program exceeds it (base/heap.h). A module's allocations are
// not counted: LibTorch's threads do not expect them to fail.
uint64_t take_memory_cap(uint64_t max_memory, const World& world);

// What metadata and objects may take beside what is already held. Always at least a little: a cap that is far too small is refused by
// fit_workers, which knows what is needed.
uint64_t memory_left(uint64_t cap);

struct WorkerNeeds {
  unsigned wanted = 1;
  uint64_t min_bytes = 1 << 20;  // minimum of a worker, whatever the plan
};
// The number of workers that fit under the cap beside what is already held; `planned`: the resulting peak, in bytes. Throws memory_cap with
// the needs of one worker.
unsigned fit_workers(const Plan& plan, const std::string& path, uint64_t cap, const WorkerNeeds& needs, uint64_t& planned);

// How many files may be open at once, by the process's limit.
struct OpenFileShares {
  size_t inputs = 0, outputs = 0;
};
OpenFileShares open_file_shares();

// Raises the process's soft limit as far as open_file_shares() has a use for. Left to the program: a host of the library has a limit of its own.
void raise_open_file_limit();

}  // namespace dcp
