// A checkpoint in memory through all that the commands do with one: verified with digests, and planned as an output.
#pragma once

#include "unit/base/fake_io.h"

namespace dcp::fuzz {

void run_whole(test::FakeIo& io, const std::string& path);

}  // namespace dcp::fuzz
