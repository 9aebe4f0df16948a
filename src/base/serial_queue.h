// A thread of its own that runs jobs one after the other: a copy stream, a background writer.
#pragma once

#include <functional>
#include <memory>

namespace dcp {

class SerialQueue {
 public:
  // Throws std::system_error where the machine gives no thread.
  SerialQueue();
  // Waits for the jobs; what one of them threw is lost.
  ~SerialQueue();
  // Returns at once. After a job that threw, later ones are passed over until wait().
  void run(std::function<void()> job);
  // Until every job is done. Rethrows what the first failed one threw, once.
  void wait();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace dcp
