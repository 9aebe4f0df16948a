// Cuts the work of a plan into units.
#pragma once

#include <algorithm>

#include "plan/plan.h"

namespace dcp {

struct UnitOptions {
  uint64_t unit_bytes = 1 << 20;    // target size of a unit, in output bytes
  uint64_t min_run = 4096;          // shortest run worth a read or write of its own
  uint64_t plane_bytes = 16 << 20;  // largest unit, if smaller ones read a derived tensor in short runs; window of a decoded record
  uint64_t pass_gap = 64 << 10;     // passes read across gaps up to this size, which is cheaper than another read
  bool verify = true;               // check the CRC of bytes read
};

// UnitOptions::plane_bytes under a cap on memory: a worker takes up to five times as much.
constexpr uint64_t plane_bytes(uint64_t max_memory) { return std::clamp<uint64_t>(max_memory / 64, 1 << 20, 16 << 20); }

// Computes groups, checks, units, bytes_to_read, worker_bytes from files, tensors, regions, copies and records; adds the records whose CRC
// the tensors' own units cannot check.
void cut_into_units(Plan& plan, const SourceFacts& source, const UnitOptions& options);

}  // namespace dcp
