// Tensors are read and summed, and nothing is written: by this process alone or by several ranks.
#pragma once

#include "app/ranked_run.h"
#include "catalog/data_files.h"
#include "exec/digest.h"
#include "exec/execute.h"

namespace dcp {

struct DigestWork {
  const Plan& plan;
  Source source;
  unsigned workers = 1;
};

// What cannot be read is in the report. With several ranks each does the units whose bytes it sees; digests and findings come together at
// rank 0.
ExecuteReport run_digest_units(const DigestWork& work, DigestSink& sink, Progress& progress, World& world);

}  // namespace dcp
