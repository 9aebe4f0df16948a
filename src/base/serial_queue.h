// One thread that runs jobs one after the other: a copy stream, a background writer.
#pragma once

#include <functional>
#include <memory>

namespace dcp {

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
