// A checkpoint in memory through all that the commands do with one: verified with digests, and planned as an output; by one worker or, for
// one `input` in four, by three.
#pragma once

#include "base/bytes.h"
#include "unit/base/fake_io.h"

namespace dcp::fuzz {

void run_whole(test::FakeIo& io, const std::string& path, Bytes input);

}  // namespace dcp::fuzz
