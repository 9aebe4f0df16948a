// A sink without files: what would be written is looked at as numbers. Of each file of the plan, which is a tensor (plan_arrays, kRaw): the
// same result, bit for bit, with any number of workers.
#pragma once

#include <array>
#include <atomic>
#include <map>
#include <mutex>
#include <utility>
#include <vector>

#include "catalog/data_files.h"
#include "exec/pieces.h"
#include "exec/sink.h"
#include "format/dtype.h"
#include "plan/plan.h"

namespace dcp {

struct TensorStats {
  uint64_t values = 0;  // of complex dtypes: real and imaginary parts
  uint64_t nan = 0, infinite = 0, zero = 0;
  // Of the finite values, if there are any.
  long double min = 0, max = 0;  // integers of 64 bits are exact in it
  double mean = 0;
  double deviations = 0;  // the sum of their squares
  // Finite values but zero by their magnitude: [n] counts those from 10^(kLowest + n) to ten times that; the first and the last those beyond.
  static constexpr int kLowest = -16;
  std::array<uint64_t, 32> decades{};

  uint64_t finite() const { return values - nan - infinite; }
  double std() const;  // as torch.std: with n - 1; NaN of fewer than two values
  TensorStats& operator+=(const TensorStats& more);
};

// Whether elements of the dtype are numbers.
bool has_numbers(DType dtype);
// Of dense elements.
TensorStats stats_of(DType dtype, Bytes elements);

// Sums by unit, which come together in the order of units. It is the supply, too: so it learns which unit a worker does.
class StatsSink final : public Sink, public UnitSupply {
 public:
  // `dtypes`: by file.
  StatsSink(const Plan& plan, std::vector<DType> dtypes, const Source& source);
  uint64_t batches() const override { return plan_.units; }
  UnitBatch take(uint64_t batch) override;
  void write(uint32_t file, uint64_t offset, Bytes bytes) override;
  void finish() override;  // no unit is left
  void commit() override {}
  void abort() noexcept override {}

  const TensorStats& of(uint32_t file) const { return sums_[file]; }

 private:
  using Parts = std::vector<std::pair<uint32_t, TensorStats>>;  // by file, as they came
  void done(uint64_t unit);                                     // with the lock

  const Plan& plan_;
  std::vector<DType> dtypes_;
  const Source source_;
  std::mutex mutex_;
  std::map<uint64_t, Parts> doing_, done_;  // by unit; done_: those before which one is not done
  uint64_t next_ = 0;                       // the first unit that is not summed
  std::vector<TensorStats> sums_;
};

}  // namespace dcp
