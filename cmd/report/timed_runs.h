// Timed runs for comparison: command lines of this program and of others, and functions, in interleaved rounds.
//
// On a shared machine one number says little: the first touch of memory and of page cache varies tenfold. So rounds are interleaved, dirty
// pages are written out before each run, and minima are compared.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "line/context.h"

namespace dcp::cmd {

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

}  // namespace dcp::cmd
