// dcpctl as a function of the outside world: called by main, and by fault tests with a world that fails.
#pragma once

#include "base/io.h"
#include "base/stores.h"

namespace dcp::cmd {

// Installs signal handlers for the life of the process, so call it only once. Returns the exit code.
int run_program(Io& io, int argc, char** argv, NamedStores stores = known_stores());

}  // namespace dcp::cmd
