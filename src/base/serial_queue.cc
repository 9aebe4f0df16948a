#include "base/serial_queue.h"

#include <condition_variable>
#include <deque>
#include <exception>
#include <mutex>
#include <thread>
#include <utility>

namespace dcp {

struct SerialQueue::State {
  std::mutex mutex;
  std::condition_variable changed;
  std::deque<std::function<void()>> jobs;
  bool running = false, ending = false;
  std::exception_ptr failure;
  std::thread thread;

  void work() {
    std::unique_lock lock(mutex);
    for (;;) {
      changed.wait(lock, [&] { return ending || !jobs.empty(); });
      if (jobs.empty()) return;
      const std::function<void()> job = std::move(jobs.front());
      jobs.pop_front();
      if (!failure) {
        running = true;
        lock.unlock();
        std::exception_ptr thrown;
        try {
          job();
        } catch (...) {
          thrown = std::current_exception();
        }
        lock.lock();
        running = false;
        if (thrown) failure = thrown;
      }
      changed.notify_all();
    }
  }
};

SerialQueue::SerialQueue() : state_(std::make_unique<State>()) {
  state_->thread = std::thread([&s = *state_] { s.work(); });
}

SerialQueue::~SerialQueue() {
  {
    const std::lock_guard lock(state_->mutex);
    state_->ending = true;
  }
  state_->changed.notify_all();
  state_->thread.join();
}

void SerialQueue::run(std::function<void()> job) {
  {
    const std::lock_guard lock(state_->mutex);
    state_->jobs.push_back(std::move(job));
  }
  state_->changed.notify_all();
}

void SerialQueue::wait() {
  std::unique_lock lock(state_->mutex);
  state_->changed.wait(lock, [&] { return state_->jobs.empty() && !state_->running; });
  if (const std::exception_ptr failure = std::exchange(state_->failure, nullptr)) std::rethrow_exception(failure);
}

}  // namespace dcp
