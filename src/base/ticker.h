// Calls a function at intervals from a thread of its own until destroyed: for progress displays.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <thread>
#include <utility>

namespace dcp {

class Ticker {
 public:
  // The first call comes after one interval. `tick` must not throw.
  Ticker(uint64_t interval_ms, std::function<void()> tick)
      : thread_([this, interval_ms, tick = std::move(tick)] {
          std::unique_lock lock(mutex_);
          while (!wake_.wait_for(lock, std::chrono::milliseconds(interval_ms), [&] { return done_; })) tick();
        }) {}
  ~Ticker() {
    {
      const std::lock_guard lock(mutex_);
      done_ = true;
    }
    wake_.notify_all();
    thread_.join();
  }
  Ticker(const Ticker&) = delete;
  Ticker& operator=(const Ticker&) = delete;

 private:
  std::mutex mutex_;
  std::condition_variable wake_;
  bool done_ = false;
  std::thread thread_;
};

}  // namespace dcp
