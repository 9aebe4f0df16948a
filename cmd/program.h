// dcpctl as a function of the outside world: what main calls, and what tests of faults call with a world that fails.
#pragma once

#include "base/io.h"

namespace dcp::cmd {

// Catches signals for the life of the process, so once in each. Returns the exit code.
int run_program(Io& io, int argc, char** argv);

}  // namespace dcp::cmd
