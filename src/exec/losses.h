// The losses of one run's casts, by tensor. Workers add in any order.
#pragma once

#include <atomic>
#include <string>
#include <vector>

#include "kernels/kernels.h"
#include "plan/plan.h"

namespace dcp {

// Losses of one tensor, if there were any.
struct TensorLosses {
  std::string key;  // of the source
  DType from{}, to{};
  Overflow overflow{};  // what values that were too large became
  CastLosses values;
};
// "float32 to float16"
inline std::string from_to(const TensorLosses& t) { return std::string(facts_of(t.from).name) + " to " + std::string(facts_of(t.to).name); }

class RunLosses {
 public:
  explicit RunLosses(const Plan& plan) : plan_(plan), by_tensor_(plan.tensors.size()) {}

  void add(uint32_t tensor, const CastLosses& losses) {  // in Plan::tensors
    if (!losses.any()) return;
    Counter& c = by_tensor_[tensor];
    c.overflowed.fetch_add(losses.overflowed, std::memory_order_relaxed);
    c.zeroed.fetch_add(losses.zeroed, std::memory_order_relaxed);
    c.not_finite.fetch_add(losses.not_finite, std::memory_order_relaxed);
  }
  // By Plan::tensors, for joining the counts of several processes.
  std::vector<CastLosses> counts() const {
    std::vector<CastLosses> all(by_tensor_.size());
    for (size_t t = 0; t < all.size(); ++t) all[t] = by_tensor_[t].values();
    return all;
  }
  void set(const std::vector<CastLosses>& counts) {
    for (size_t t = 0; t < by_tensor_.size(); ++t) {
      by_tensor_[t].overflowed = counts.at(t).overflowed;
      by_tensor_[t].zeroed = counts[t].zeroed;
      by_tensor_[t].not_finite = counts[t].not_finite;
    }
  }
  // In the plan's order.
  std::vector<TensorLosses> list(const Catalog& catalog, Fp8Overflow fp8_overflow) const;

 private:
  struct Counter {
    std::atomic<uint64_t> overflowed{0}, zeroed{0}, not_finite{0};
    CastLosses values() const { return {.overflowed = overflowed, .zeroed = zeroed, .not_finite = not_finite}; }
  };
  const Plan& plan_;
  std::vector<Counter> by_tensor_;
};

}  // namespace dcp
