// Between the house's types and those of the public headers.
#pragma once

#include <string>
#include <vector>

#include "app/source.h"
#include "app/world.h"
#include "base/io.h"
#include "dcpctl/error.h"
#include "format/dtype.h"

namespace dcpctl {

// What a call needs of the outside. Nobody stops it, and nobody listens.
struct Outside {
  std::unique_ptr<dcp::Io> io = dcp::make_posix_io();
  dcp::StopFlag stop{0};
  dcp::Events nobody;
  dcp::World world{*io, stop, nobody};
};

Problem to_public(const dcp::Problem& problem);
std::vector<Problem> to_public(const std::vector<dcp::Problem>& problems);

// Runs `body`; what it throws becomes an Error.
template <class Body>
auto guarded(const Body& body) {
  try {
    return body();
  } catch (const std::exception& error) {
    throw Error(to_public(dcp::problem_of(error)));
  }
}

dcp::SourceRequest source_of(const std::string& path, const std::string& step);
// Bytes beside what the process holds, as the use cases count them: with it.
uint64_t cap_of(uint64_t extra_memory);
// Of a dtype that is asked for. Throws usage.
dcp::DType cast_target(const std::string& name);

}  // namespace dcpctl
