// What a Control holds: the listener and the stop signal of the world in which a call runs.
#pragma once

#include <mutex>

#include "app/world.h"
#include "base/workers.h"
#include "dcpctl/control.h"

namespace dcpctl {

struct [[gnu::visibility("hidden")]] Control::State final : dcp::Events {
  dcp::StopFlag stop{0};

  // While the work goes on, its own counter is asked; what it ended with is kept.
  std::unique_ptr<dcp::Display> show(const dcp::Progress&, const std::atomic<uint64_t>& done, uint64_t total) override;
  uint64_t bytes_done() const;
  uint64_t bytes_total() const { return total_; }

 private:
  class Shown;
  mutable std::mutex mutex_;
  const std::atomic<uint64_t>* counter_ = nullptr;
  uint64_t done_ = 0;
  std::atomic<uint64_t> total_{0};
};

}  // namespace dcpctl
