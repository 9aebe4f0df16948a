#include "inputs/at_once.h"

#include <algorithm>
#include <vector>

#include "base/workers.h"

namespace dcp {

void read_at_once(Store& store, const std::string& folder, size_t count, Limits& left,
                  const std::function<void(size_t n, Limits& share)>& read) {
  const size_t most = std::max(1u, store.read_capabilities(folder).requests);
  const StopFlag never{0};
  for (size_t first = 0; first < count; first += most) {
    const size_t batch = std::min(most, count - first);
    const uint64_t memory = left.memory_bytes / batch;
    std::vector<Limits> shares(batch, left);
    for (Limits& share : shares) share.memory_bytes = memory;
    parallel_for(static_cast<unsigned>(batch), batch, never, [&](unsigned, uint64_t n) { read(first + n, shares[n]); });
    for (const Limits& share : shares) left.memory_bytes -= memory - share.memory_bytes;
  }
}

}  // namespace dcp
