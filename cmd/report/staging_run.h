// bench staging from its options to its answer.
#pragma once

#include <string>

#include "report/staging_request.h"
#include "report/staging_save.h"

namespace dcp::cmd {

struct StagingOptions {
  StagingRequest what;
  SaveFlags save;
  std::string html;
  bool force = false;
};

// Prints the answer; returns it as JSON.
std::string run_staging(const StagingOptions& o, Context& context);

}  // namespace dcp::cmd
