// bench staging from its options to its answer: what it should copy and how, and the resulting copies.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "report/staging_report.h"
#include "report/staging_save.h"
#include "request/source.h"
#include "staging/measure.h"

namespace dcp::cmd {

// As they stand on the command line.
struct StagingRequest {
  std::string device = "auto", devices = "0", sizes, model, dtype = "bfloat16", methods, streams = "1,2", chunks = "whole,16MiB";
  SourceFlags like;
  bool optimizer = false, no_numa = false;
  uint32_t world_size = 1, count = 1;
  std::optional<uint32_t> rank;
  MeasureOptions measure;
};

// All of these throw usage.
std::vector<StagingCase> cases_of(const StagingRequest& o, const std::vector<int>& nodes);
std::vector<Workload> workloads_of(const StagingRequest& o, Context& context);
// Which table of devices is used; `auto` falls back to the host and says why.
const DcpctlDeviceTable& device_table(const StagingRequest& o, StagingReport& report);
std::vector<uint32_t> wanted_devices(const StagingRequest& o, uint32_t there);

// The link as it is while copies run: idle ones report a lower generation.
LinkFacts link_under_load(Device& device);
void measure_staging(const StagingRequest& o, const std::vector<StagingSource>& sources, StagingReport& report, Context& context);

struct StagingOptions {
  StagingRequest what;
  SaveFlags save;
  std::string html;
  bool force = false;
};

// Prints the answer; returns it as JSON.
std::string run_staging(const StagingOptions& o, Context& context);

}  // namespace dcp::cmd
