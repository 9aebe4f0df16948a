// Converts between internal types and those of the public headers.
#pragma once

#include <string>
#include <vector>

#include "app/requests.h"
#include "app/world.h"
#include "base/io.h"
#include "base/stores.h"
#include "dcpctl/error.h"
#include "format/dtype.h"

namespace dcpctl {

// The outside world of a call: no stop signal, no listener.
struct Outside {
  std::unique_ptr<dcp::Io> io = dcp::make_posix_io();
  dcp::StopFlag stop{0};
  dcp::Events nobody;
  dcp::Stores stores{*io};
  dcp::World world{stores, *io, stop, nobody};
};

Problem to_public(const dcp::Problem& problem);
std::vector<Problem> to_public(const std::vector<dcp::Problem>& problems);

// Runs `body` and turns any exception into an Error.
template <class Body>
auto guarded(const Body& body) {
  try {
    return body();
  } catch (const std::exception& error) {
    throw Error(to_public(dcp::problem_of(error)));
  }
}

dcp::SourceRequest source_of(const std::string& path, const std::string& step);
// Turns a limit on top of what the process holds into the total that use cases count.
uint64_t cap_of(uint64_t extra_memory);
// The requested dtype. Throws usage.
dcp::DType cast_target(const std::string& name);

}  // namespace dcpctl
