// What `bench io` runs on a checkpoint: dcpctl's commands, and plain copies and reads of the same bytes.
#pragma once

#include <string>
#include <vector>

#include "base/json.h"
#include "report/timed_runs.h"

namespace dcp::cmd {

// A hidden folder that is always removed, with everything in it.
class Scratch {
 public:
  Scratch(Io& io, std::string path);
  ~Scratch();
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

struct IoRuns {
  std::string checkpoint;
  std::string scratch;  // folder for outputs
  unsigned workers = 1;
  uint32_t ranks = 1;  // of the checkpoint
};
std::vector<TimedRun> io_runs(const IoRuns& what, Context& context);

// `bytes`: of the checkpoint's files.
void print_io_runs(const std::vector<TimedRun>& runs, uint64_t bytes, const Context& context);
void json_io_runs(const std::vector<TimedRun>& runs, uint64_t bytes, JsonWriter& json);

}  // namespace dcp::cmd
