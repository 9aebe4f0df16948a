// Reads and sums tensors without writing anything, in this process alone or on several ranks.
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

// The report lists what cannot be read. With several ranks, each does the units whose bytes it sees; rank 0 gathers digests and findings.
ExecuteReport run_digest_units(const DigestWork& work, DigestSink& sink, Progress& progress, World& world);

}  // namespace dcp
