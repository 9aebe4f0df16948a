// Runs a plan: units on workers, each with its own buffers, read -> check CRC -> place -> convert -> CRC -> write. No queue, no pipeline,
// no pool: plain synchronous workers match the speed of a bare copy, and memory is workers x buffers whatever the model's size.
#pragma once

#include <atomic>
#include <cstdint>
#include <vector>

#include "base/workers.h"
#include "catalog/data_files.h"
#include "exec/pieces.h"
#include "exec/sums.h"
#include "files/sink.h"
#include "items/resolve.h"
#include "plan/plan.h"

namespace dcp {

// Counters that a progress display reads while units run.
struct Progress {
  std::atomic<uint64_t> bytes_read{0};
  std::atomic<uint64_t> bytes_written{0};
};

// A run's progress, and the flag that asks it to stop.
struct Watch {
  Progress& progress;
  const StopFlag& stop;
};

struct ExecuteOptions {
  unsigned workers = 1;
  Faults faults = Faults::kThrow;  // kCollect: read errors are added to the damage, and the other units go on
  Fp8Overflow fp8_overflow = Fp8Overflow::kSaturate;
  UnitSupply* supply = nullptr;  // nullptr: all units, from the files
};

struct ExecuteReport {
  uint64_t bytes_read = 0;
  uint64_t bytes_written = 0;
  uint64_t records_checked = 0;
  uint64_t worker_bytes = 0;         // of buffers, the maximum that one worker held
  uint64_t bytes_checked = 0;        // of those records
  uint64_t records_without_crc = 0;  // read by passes or copies, but their writer computed none
  std::vector<Problem> damage;       // every CRC mismatch, tensors in the order of the metadata; if there is any, nothing may be committed
  std::vector<TensorLosses> losses;
};

// Memory that execute() will hold in addition to the plan and the workers' buffers.
uint64_t execute_bytes(const Plan& plan);

// Runs all units. Afterwards the sink has all its bytes, unless the report names damage; the caller calls finish() and commit(). Throws the
// Error of a unit.
ExecuteReport execute(const Plan& plan, const Source& source, Sink& sink, const ExecuteOptions& options, const Watch& watch);

}  // namespace dcp
