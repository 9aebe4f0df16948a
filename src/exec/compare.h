// Compares the tensors of two sources unit by unit: if the bytes of a box are the same, nothing is decoded; otherwise its elements are
// compared.
#pragma once

#include <cstdint>
#include <map>

#include "catalog/data_files.h"
#include "exec/execute.h"
#include "kernels/compare.h"
#include "plan/compare_plan.h"

namespace dcp {

struct CompareOptions {
  unsigned workers = 1;
  Tolerance tolerance;
  bool lead_is_a = true;  // which side errors are relative to: b
};

struct CompareReport {
  // By tensor of the plans; only tensors whose bytes differ. Indexes count the tensor's elements in row-major order.
  std::map<uint32_t, ElementDifferences> differences;
  std::vector<Problem> damage;  // records of either side whose CRC differs
};

struct ComparedSources {
  const Source &lead, &follow;
};

// Throws the Error of a unit.
CompareReport compare(const ComparePlan& plan, const ComparedSources& sources, const CompareOptions& options, Progress& progress,
                      const StopFlag& stop);

// Memory that one worker needs.
uint64_t compare_worker_bytes(const ComparePlan& plan, const Source& follow);

}  // namespace dcp
