// The only place that starts threads, besides base/serial_queue.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>

namespace dcp {

// Set by a signal handler in cmd/ (the signal's number) or a test; workers look at it between units.
using StopFlag = std::atomic<int>;

// Calls fn(worker, ordinal) for each ordinal of [0, count), on `workers` threads (1: on the caller's own). Ordinals start in order. When
// one throws, no new ordinal starts, lower ones finish, and the exception of the lowest failed ordinal is rethrown, so that messages are
// repeatable. When `stop` becomes non-zero, it throws `interrupted` (SIGINT) or `terminated` (any other signal) once the running ordinals
// are done. Blocks until all threads are joined.
void parallel_for(unsigned workers, uint64_t count, const StopFlag& stop, const std::function<void(unsigned worker, uint64_t ordinal)>& fn);

// Calls a function at intervals, on its own thread, until destroyed. For progress displays.
class Ticker {
 public:
  // The first call comes after one interval. `tick` must not throw.
  Ticker(uint64_t interval_ms, std::function<void()> tick);
  ~Ticker();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// clamp(cores, 4, 16): below 4 a single slow read would stall all; above 16 disks gain nothing.
unsigned default_workers();

// One thread that runs jobs one after the other: a copy stream, a background writer.

class SerialQueue {
 public:
  // Throws std::system_error if no thread can be started.
  SerialQueue();
  // Waits for the jobs; an exception of a job is lost.
  ~SerialQueue();
  // Returns at once. After a job has thrown, later ones are skipped until wait().
  void run(std::function<void()> job);
  // Waits until every job is done. Rethrows the exception of the first failed one, once.
  void wait();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace dcp
