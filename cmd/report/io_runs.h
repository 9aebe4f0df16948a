// What `bench io` runs on a checkpoint (dcpctl's commands, and plain copies and reads of the same bytes), and how the runs are timed.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "base/json.h"
#include "line/context.h"

namespace dcp::cmd {

// Timed runs for comparison: command lines of this program and of others, and functions, in interleaved rounds.
//
// On a shared machine one number says little: the first touch of memory and of page cache varies tenfold. So rounds are interleaved, dirty
// pages are written out before each run, and minima are compared.

struct TimedRun {
  std::string name;
  std::vector<std::string> command;  // the first word: "dcpctl" is this program, any other is looked up in PATH; empty: `body`
  std::function<void()> body;
  std::string output;  // removed after each run; "": there is none
  std::string report;  // file that the command's --report writes, where its memory is read from; "": there is none
  size_t beside = 0;   // position of the run to compare with

  std::vector<uint64_t> ns;        // by round
  uint64_t peak_memory_bytes = 0;  // max of all runs; 0: unknown
  uint64_t best_ns() const;
};

// Each run once a round, in order. Throws bench_run_failed with what the command said, `interrupted`.
void run_rounds(std::vector<TimedRun>& runs, unsigned rounds, Context& context);

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
