// Cuts the work of a plan into units.
#pragma once

#include <algorithm>

#include "plan/plan.h"

namespace dcp {

struct UnitOptions {
  uint64_t unit_bytes = 1 << 20;    // target size of a unit, in output bytes
  uint64_t min_run = 4096;          // shortest run worth a read or write of its own
  uint64_t plane_bytes = 16 << 20;  // largest unit, where a derived tensor's order makes a smaller one read in short runs; held at once of
                                    // a record that is decoded for views
  uint64_t pass_gap = 64 << 10;     // passes read on over a gap of this size: it costs less than another read
  bool verify = true;               // check the CRC of what is read
};

// UnitOptions::plane_bytes under a cap on memory: a worker takes up to five times as much.
constexpr uint64_t plane_bytes(uint64_t max_memory) { return std::clamp<uint64_t>(max_memory / 64, 1 << 20, 16 << 20); }

// Fills groups, checks, units, bytes_to_read, worker_bytes from files, tensors, regions, copies and records; adds the records whose CRC
// the tensors' own units do not see.
void cut_into_units(Plan& plan, const SourceFacts& source, const UnitOptions& options);

}  // namespace dcp
