// A sink without files that computes statistics of what would be written. Each file of the plan is a tensor (plan_arrays, kRaw). The result
// is the same, bit for bit, with any number of workers.
#pragma once

#include <array>
#include <atomic>
#include <map>
#include <mutex>
#include <utility>
#include <vector>

#include "catalog/data_files.h"
#include "exec/pieces.h"
#include "files/sink.h"
#include "format/dtype.h"
#include "plan/plan.h"

namespace dcp {

struct TensorStats {
  uint64_t values = 0;  // for complex dtypes, real and imaginary parts each count
  uint64_t nan = 0, infinite = 0, zero = 0;
  // These are of the finite values, if there are any.
  long double min = 0, max = 0;  // exact for 64-bit integers
  double mean = 0;
  double deviations = 0;  // the sum of their squares
  // Finite non-zero values by magnitude: [n] counts those from 10^(kLowest + n) to ten times that; the first and the last also count those
  // beyond.
  static constexpr int kLowest = -16;
  std::array<uint64_t, 32> decades{};

  // How many finite values lie in which of 32 parts of an octave, until settle(): the key orders values.
  std::vector<std::pair<int32_t, uint64_t>> parts;
  // Once all is summed: values below which so many percent of the finite ones lie, to one part in a hundred, and how many lie in each of eight
  // equal steps from min to max.
  static constexpr std::array<int, 7> kPercents{1, 5, 25, 50, 75, 95, 99};
  std::array<double, kPercents.size()> quantiles{};
  std::array<uint64_t, 8> steps{};
  bool is_settled = false;
  void settle();  // and forgets the parts

  uint64_t finite() const { return values - nan - infinite; }
  double std() const;  // as torch.std: divides by n - 1; NaN for fewer than two values
  TensorStats& operator+=(const TensorStats& more);
};

// Whether elements of the dtype are numbers.
bool has_numbers(DType dtype);
// Statistics of dense elements.
TensorStats stats_of(DType dtype, Bytes elements);

// Sums each unit by itself and joins the sums in unit order. It is also the supply, so that it knows which unit a worker is doing.
class StatsSink final : public PassingSink, public UnitSupply {
 public:
  // `dtypes`: by file.
  StatsSink(const Plan& plan, std::vector<DType> dtypes, const Source& source);
  uint64_t batches() const override { return plan_.units; }
  UnitBatch take(uint64_t batch) override;
  void write(uint32_t file, uint64_t offset, Bytes bytes) override;
  void finish() override;  // no unit is left

  const TensorStats& of(uint32_t file) const { return sums_[file]; }

 private:
  using Parts = std::vector<std::pair<uint32_t, TensorStats>>;  // by file, in order of arrival
  void done(uint64_t unit);                                     // with the lock
  void add(uint32_t file, const TensorStats& part);             // in the order of units

  const Plan& plan_;
  std::vector<DType> dtypes_;
  const Source source_;
  std::mutex mutex_;
  std::map<uint64_t, Parts> doing_, done_;  // by unit; done_: finished, but waiting for an earlier one
  uint64_t next_ = 0;                       // the first unit that is not summed yet
  std::vector<TensorStats> sums_;
  size_t current_ = 0;  // the file that is being summed: those before it are complete
};

}  // namespace dcp
