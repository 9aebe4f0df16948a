// Progress on stderr while a command runs: a bar on a terminal, plain lines elsewhere, or JSON objects.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/workers.h"
#include "line/context.h"

namespace dcp::cmd {

class ProgressDisplay final : public Display {
 public:
  // `done`: the counter of `progress` that will reach `total` bytes. Shows nothing with --quiet, or with `auto` if the work ends before the
  // first tick.
  ProgressDisplay(Context& context, const Progress& progress, const std::atomic<uint64_t>& done, uint64_t total);
  ~ProgressDisplay() override;

 private:
  void show() noexcept;
  void draw();
  Context& context_;
  const Progress& progress_;
  const std::atomic<uint64_t>& done_;
  uint64_t total_;
  uint64_t begin_ns_;
  ProgressForm form_;
  bool bar_shown_ = false;
  std::unique_ptr<Ticker> ticker_;
};

// The same for work counted in steps.
class StepDisplay {
 public:
  StepDisplay(Context& context, size_t steps);
  ~StepDisplay();
  void begin(const std::string& what);  // the next step

 private:
  Context& context_;
  size_t steps_, done_ = 0;
  uint64_t shown_ns_ = 0;
  ProgressForm form_;
};

// " 45.2 %  [####......]  1.0 GiB of 2.2 GiB  1.1 GB/s  3 s left": as many parts as fit in the line, and a bar if there is room left.
std::string bar_line(double share, const std::vector<std::string>& parts, size_t columns);

}  // namespace dcp::cmd
