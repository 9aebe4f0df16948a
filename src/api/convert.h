// Converts between internal types and those of the public headers.
#pragma once

#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "app/requests.h"
#include "app/world.h"
#include "base/io.h"
#include "base/stores.h"
#include "base/workers.h"
#include "dcpctl/control.h"
#include "dcpctl/error.h"
#include "dcpctl/save.h"
#include "format/dtype.h"
#include "select/select.h"

namespace dcpctl {

// What a Control holds: the listener and the stop signal of the world in which a call runs.

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

// The outside world of a call: its Control, if it has one, is the stop signal and the listener.
struct Outside {
  explicit Outside(Control* control = nullptr) : world(world_of(control)) {}
  // The same world for another call.
  dcp::World world_of(Control* control) {
    if (control == nullptr) return {stores, *io, never, nobody};
    return {stores, *io, control->state().stop, control->state()};
  }

  std::unique_ptr<dcp::Io> io = dcp::make_posix_io();
  dcp::StopFlag never{0};
  dcp::Events nobody;
  dcp::Stores stores{*io};
  dcp::World world;
};

Problem to_public(const dcp::Problem& problem);
std::vector<Problem> to_public(const std::vector<dcp::Problem>& problems);

// Runs `body` and turns any exception into an Error.
template <class Body>
auto guarded(const Body& body) {
  try {
    return body();
  } catch (const Error&) {
    throw;
  } catch (const std::exception& error) {
    throw Error(to_public(dcp::problem_of(error)));
  }
}

// save(); or, with a failure of this rank, what all ranks then throw.
SaveReport save_or_fail(const std::string& path, std::span<const Shard> shards, const SaveOptions& options,
                        const std::optional<dcp::Problem>& failure);

using dcp::cap_of;
dcp::SourceRequest source_of(const std::string& path, const std::string& step);
// "REGEX=>REPLACEMENT", "GLOB=DTYPE". Throw usage.
dcp::RenameRule rename_of(const std::string& text);
dcp::DtypeRule dtype_rule_of(const std::string& text);
// The requested dtype. Throws usage.
dcp::DType cast_target(const std::string& name);

}  // namespace dcpctl
