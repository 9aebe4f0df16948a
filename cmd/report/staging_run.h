// bench staging from its options to its answer.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "report/staging_report.h"
#include "report/staging_save.h"
#include "request/source.h"
#include "staging/measure.h"

namespace dcp::cmd {

// What to copy and how, as it stands on the command line.
struct StagingRequest {
  std::string device = "auto", devices = "0", sizes, model, dtype = "bfloat16", methods, streams = "1,2", chunks = "whole,16MiB";
  SourceFlags like;
  bool optimizer = false, no_numa = false;
  uint32_t world_size = 1, count = 1;
  std::optional<uint32_t> rank;
  MeasureOptions measure;
};

struct StagingOptions {
  StagingRequest what;
  SaveFlags save;
  std::string html;
  bool force = false;
};

// Prints the answer; returns it as JSON.
std::string run_staging(const StagingOptions& o, Context& context);

}  // namespace dcp::cmd
