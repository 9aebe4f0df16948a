// The outside world of a use case: files, the signal to stop, a listener for events, and the other ranks of its run.
//
// A use case is a function of a request; it neither prints nor exits, and knows no options. It reports to Events on the way, fills in its
// result, and throws an Error if it fails.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <string_view>

#include "base/io.h"
#include "base/problem.h"
#include "base/workers.h"

namespace dcp {

struct Progress;  // exec/execute.h
class RankedRun;

// Shows the progress of some work for as long as it lives.
class Display {
 public:
  virtual ~Display() = default;
};

// Called on the thread that runs the use case, except for last_words. Each text is one line with names escaped.
class Events {
 public:
  virtual ~Events() = default;
  virtual void info(std::string_view) {}     // about the result
  virtual void verbose(std::string_view) {}  // details, for -v
  virtual void warn(std::string_view) {}     // part of a failure, before it is thrown
  // Work begins; `done`, a counter of `progress`, will reach `total` bytes. Called once; may return nullptr.
  virtual std::unique_ptr<Display> show(const Progress&, const std::atomic<uint64_t>& /*done*/, uint64_t /*total*/) { return nullptr; }
  // Puts a problem, and the name of a setting, into the words of the user interface.
  virtual Problem worded(Problem problem) const { return problem; }
  virtual std::string name_of(std::string_view setting) const { return std::string(setting); }
  std::string line_of(const Problem& problem) const { return to_line(worded(problem)); }
  // Called from a thread of the session if this rank does not finish after a failure elsewhere. Ends the process.
  virtual void last_words(const Problem&) {}
};

struct World {
  World(Io& the_io, StopFlag& the_stop, Events& the_events) : World(the_io, the_io, the_stop, the_events) {}
  World(Store& the_store, Io& the_io, StopFlag& the_stop, Events& the_events)
      : store(the_store), io(the_io), stop(the_stop), events(the_events) {}
  Store& store;  // everything that is read: checkpoints, layout files, maps
  Io& io;        // where outputs are created, and checkpoints are changed in place
  StopFlag& stop;
  Events& events;
  std::shared_ptr<RankedRun> ranks;  // if a launcher started several; lives until the process ends
  bool prints = true;                // of several ranks, only rank 0 reports, or a rank that has lost it

  bool leads() const;       // one process, or rank 0
  void check_stop() const;  // throws if a signal asked to stop
};

// The problem of any exception.
Problem problem_of(const std::exception& error);

// Memory of this process: peak so far, and current.
uint64_t peak_rss_bytes();
// A cap of so many bytes beside what the process holds.
uint64_t cap_of(uint64_t extra_memory);
uint64_t resident_bytes();

}  // namespace dcp
