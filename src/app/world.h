// What a use case has of the outside: files, the signal to stop, somebody who listens, and the other ranks of its run.
//
// A use case is a function of a request; it neither prints nor exits, and knows no options. What it says on its way goes to Events, what it
// found out into its result, and a failure out of it as an Error.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <string_view>

#include "base/io.h"
#include "base/problem.h"
#include "base/workers.h"
#include "exec/execute.h"

namespace dcp {

class RankedRun;

// Shows the progress of some work while it lives.
class Display {
 public:
  virtual ~Display() = default;
};

// Called on the thread that runs the use case, but for last_words. Texts are one line each, names in them escaped.
class Events {
 public:
  virtual ~Events() = default;
  virtual void info(std::string_view) {}     // about the result
  virtual void verbose(std::string_view) {}  // for who wants to know more
  virtual void warn(std::string_view) {}     // part of a failure, before it is thrown
  // Work begins; `done`, one of the counters of `progress`, is to reach `total` bytes. Called once, and nullptr is an answer.
  virtual std::unique_ptr<Display> show(const Progress&, const std::atomic<uint64_t>& /*done*/, uint64_t /*total*/) { return nullptr; }
  // A problem, and the name of a setting, in the words of who reads it.
  virtual Problem worded(Problem problem) const { return problem; }
  virtual std::string name_of(std::string_view setting) const { return std::string(setting); }
  std::string line_of(const Problem& problem) const { return to_line(worded(problem)); }
  // From a thread of the session's: this rank does not come to its end after a failure elsewhere. Ends the process.
  virtual void last_words(const Problem&) {}
};

struct World {
  World(Io& the_io, StopFlag& the_stop, Events& the_events) : io(the_io), stop(the_stop), events(the_events) {}
  Io& io;
  StopFlag& stop;
  Events& events;
  std::shared_ptr<RankedRun> ranks;  // where a launcher started several; lives until the process ends
  bool prints = true;                // of several ranks only rank 0 reports, or who has lost it

  bool leads() const;       // one process, or rank 0
  void check_stop() const;  // throws if a signal asked to stop
};

// What a failure was, whatever was thrown.
Problem problem_of(const std::exception& error);

// Of this process's memory: the most so far, and now.
uint64_t peak_rss_bytes();
uint64_t resident_bytes();

}  // namespace dcp
