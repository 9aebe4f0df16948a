// Follows a call that runs on another thread, and ends it.
#pragma once

#include <cstdint>
#include <memory>

#include "dcpctl/export.h"

namespace dcpctl {

// For one call, which is given a pointer to it in its options; it must outlive the call. All functions may be called from any thread.
class DCPCTL_API Control {
 public:
  Control();
  ~Control();
  Control(const Control&) = delete;
  Control& operator=(const Control&) = delete;
  void cancel() noexcept;  // the call throws `interrupted` as soon as its threads see it: within a few MiB
  uint64_t bytes_done() const noexcept;
  uint64_t bytes_total() const noexcept;  // 0: not known yet

  struct State;
  State& state() { return *state_; }  // for the library

 private:
  std::unique_ptr<State> state_;
};

}  // namespace dcpctl
