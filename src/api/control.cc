#include "api/control.h"

#include <algorithm>
#include <csignal>

namespace dcpctl {

class Control::State::Shown final : public dcp::Display {
 public:
  explicit Shown(State& state) : state_(state) {}
  ~Shown() override {
    const std::lock_guard lock(state_.mutex_);
    state_.done_ = *state_.counter_;
    state_.counter_ = nullptr;
  }

 private:
  State& state_;
};

std::unique_ptr<dcp::Display> Control::State::show(const dcp::Progress&, const std::atomic<uint64_t>& done, uint64_t total) {
  const std::lock_guard lock(mutex_);
  counter_ = &done;
  total_ = total;
  return std::make_unique<Shown>(*this);
}

uint64_t Control::State::bytes_done() const {
  const std::lock_guard lock(mutex_);
  return std::min<uint64_t>(counter_ != nullptr ? counter_->load() : done_, total_);  // steps are read with what lies between
}

Control::Control() : state_(std::make_unique<State>()) {}
Control::~Control() = default;
void Control::cancel() noexcept { state_->stop = SIGINT; }
uint64_t Control::bytes_done() const noexcept { return state_->bytes_done(); }
uint64_t Control::bytes_total() const noexcept { return state_->bytes_total(); }

}  // namespace dcpctl
