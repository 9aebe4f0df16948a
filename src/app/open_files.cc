#include "app/open_files.h"

#include <sys/resource.h>

#include <algorithm>

#include "catalog/data_files.h"
#include "catalog/placements.h"

namespace dcp {

namespace {

constexpr rlim_t kOthers = 48;  // standard streams, locks, folders, and what workers hold past its eviction
constexpr rlim_t kMin = 16, kMax = DataFiles::kMax + kMaxRanks + kOthers;

}  // namespace

OpenFileShares open_file_shares() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return {.inputs = kMin, .outputs = kMin};
  const rlim_t ours = std::min(limit.rlim_cur, kMax) - std::min(limit.rlim_cur, kOthers);
  const rlim_t inputs = std::clamp<rlim_t>(ours / 2, kMin, DataFiles::kMax);
  return {.inputs = inputs, .outputs = std::max(ours - std::min(ours, inputs), kMin)};
}

void raise_open_file_limit() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= std::min(limit.rlim_max, kMax)) return;
  limit.rlim_cur = std::min(limit.rlim_max, kMax);
  (void)!setrlimit(RLIMIT_NOFILE, &limit);  // refused: fewer files are open at once
}

}  // namespace dcp
