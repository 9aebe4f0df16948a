// Conclusions from runs of the training loop: pure functions of their results.
#include <algorithm>
#include <numeric>

#include "base/text.h"
#include "staging/measure.h"
#include "staging/train.h"

namespace dcp {
namespace {

uint64_t mean_step(const TrainResult& r) {
  const size_t n = std::max<size_t>(r.step_ns.size(), 2) - 1;  // the last step is saved in another way
  return std::accumulate(r.step_ns.begin(), r.step_ns.begin() + static_cast<ptrdiff_t>(std::min(n, r.step_ns.size())), uint64_t{0}) / n;
}

}  // namespace

TrainSummary summarize(const TrainResult& result, const TrainResult& without_saves) {
  std::vector<uint64_t> stalls, durable;
  for (const SaveFacts& s : result.saves) {
    if (s.last && result.saves.size() > 1) continue;
    stalls.push_back(s.stall_ns());
    durable.push_back(s.durable_ns);
  }
  TrainSummary summary{.step_ns = mean_step(result)};
  if (!stalls.empty()) {
    summary.stall_ns = spread_of(stalls).median;
    summary.durable_ns = spread_of(durable).median;
  }
  const uint64_t bare = mean_step(without_saves);
  if (bare > 0) summary.overhead = static_cast<double>(summary.step_ns) / static_cast<double>(bare) - 1;
  return summary;
}

std::string train_verdict(const std::vector<TrainResult>& modes, const TrainResult& without_saves) {
  const TrainResult* best = nullptr;
  std::string others;
  for (const TrainResult& m : modes)
    if (best == nullptr || summarize(m, without_saves).stall_ns < summarize(*best, without_saves).stall_ns) best = &m;
  if (best == nullptr) return "No mode was measured.";
  for (const TrainResult& m : modes)
    if (&m != best)
      others += (others.empty() ? "; " : ", ") + std::string(name_of(*m.mode)) + " " + duration(summarize(m, without_saves).stall_ns);
  const TrainSummary s = summarize(*best, without_saves);
  return "Save in mode " + std::string(name_of(*best->mode)) + ": each save stalls training for " + duration(s.stall_ns) +
         " and is durable after " + duration(s.durable_ns) + ", with " + human_bytes(best->host_bytes) + " of host memory" + others + ".";
}

}  // namespace dcp
