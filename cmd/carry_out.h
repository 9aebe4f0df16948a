// The second half of a writing command: a plan becomes files, by this process alone or by several ranks.
#pragma once

#include "catalog/data_files.h"
#include "writer.h"

namespace dcp::cmd {

struct WriteJob {
  const WriterFlags& flags;
  Context& context;
  WriteReport& report;
  const Catalog& catalog;
  const Resolved& resolved;
  const Plan& plan;
  DataFiles& files;
  uint64_t open_outputs = 0;  // of files, at most at once
  unsigned workers = 1;
  uint64_t begin_ns = 0;
};

// Returns the exit code.
int carry_out(const WriteJob& job);

}  // namespace dcp::cmd
