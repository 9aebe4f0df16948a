// Progress on stderr while a command runs: a bar on a terminal, plain lines elsewhere, or JSON objects.
#pragma once

#include <memory>

#include "base/workers.h"
#include "context.h"
#include "exec/execute.h"

namespace dcp::cmd {

class ProgressDisplay {
 public:
  // `done`: the counter of `progress` that is to reach `total` bytes. Shows nothing with --quiet, or for `auto` when the work is done
  // before the first tick.
  ProgressDisplay(const Context& context, const Progress& progress, const std::atomic<uint64_t>& done, uint64_t total);
  ~ProgressDisplay();

 private:
  void show() noexcept;
  void draw();
  const Context& context_;
  const Progress& progress_;
  const std::atomic<uint64_t>& done_;
  uint64_t total_;
  uint64_t begin_ns_;
  ProgressForm form_;
  bool bar_shown_ = false;
  std::unique_ptr<Ticker> ticker_;
};

}  // namespace dcp::cmd
