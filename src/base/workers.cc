#include "base/workers.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <csignal>
#include <deque>
#include <exception>
#include <mutex>
#include <optional>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "base/problem.h"

namespace dcp {
namespace {

// Deals out ordinals and keeps the lowest failure. One lock covers both, so an ordinal that was dealt always runs: all ordinals below a
// failed one were dealt before it, and finish before anything is reported.
class Dealer {
 public:
  Dealer(uint64_t count, const StopFlag& stop) : count_(count), stop_(stop) {}

  std::optional<uint64_t> next() {
    const std::lock_guard lock(mutex_);
    if (next_ == count_ || failure_ || stop_.load() != 0) return std::nullopt;
    return next_++;
  }

  void failed(uint64_t ordinal, std::exception_ptr failure) {
    const std::lock_guard lock(mutex_);
    if (failure_ && ordinal > failed_ordinal_) return;
    failure_ = std::move(failure);
    failed_ordinal_ = ordinal;
  }

  void rethrow() const {
    if (failure_) std::rethrow_exception(failure_);
  }

 private:
  std::mutex mutex_;
  const uint64_t count_;
  const StopFlag& stop_;
  uint64_t next_ = 0;
  std::exception_ptr failure_;
  uint64_t failed_ordinal_ = 0;
};

}  // namespace

void parallel_for(unsigned workers, uint64_t count, const StopFlag& stop,
                  const std::function<void(unsigned worker, uint64_t ordinal)>& fn) {
  Dealer dealer(count, stop);
  const auto work = [&](unsigned worker) {
    while (const std::optional<uint64_t> ordinal = dealer.next()) {
      try {
        fn(worker, *ordinal);
      } catch (...) {
        dealer.failed(*ordinal, std::current_exception());
      }
    }
  };
  {
    std::vector<std::jthread> threads;
    const uint64_t useful = std::min<uint64_t>(std::max(workers, 1u), count);
    try {
      for (unsigned worker = 1; worker < useful; ++worker) threads.emplace_back(work, worker);
    } catch (const std::system_error&) {
      // No more threads can be started (login nodes limit processes): the ones that exist do the work.
    }
    work(0);
  }  // joins

  dealer.rethrow();
  const int signal = stop.load();
  if (signal != 0) fail(signal == SIGINT ? ProblemId::interrupted : ProblemId::terminated, Place{});
}

unsigned default_workers() { return std::clamp(std::thread::hardware_concurrency(), 4u, 16u); }

struct Ticker::State {
  std::mutex mutex;
  std::condition_variable wake;
  bool done = false;
  std::thread thread;
};

Ticker::Ticker(uint64_t interval_ms, std::function<void()> tick) : state_(std::make_unique<State>()) {
  state_->thread = std::thread([&s = *state_, interval_ms, tick = std::move(tick)] {
    std::unique_lock lock(s.mutex);
    while (!s.wake.wait_for(lock, std::chrono::milliseconds(interval_ms), [&] { return s.done; })) tick();
  });
}

Ticker::~Ticker() {
  {
    const std::lock_guard lock(state_->mutex);
    state_->done = true;
  }
  state_->wake.notify_all();
  state_->thread.join();
}

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
