// dcpctl as a function of the outside world: called by main, and by fault tests with a world that fails.
#pragma once

#include <optional>

#include "base/io.h"
#include "base/stores.h"

namespace dcp::cmd {

// Installs signal handlers for the life of the process, so call it only once. Returns the exit code. `stores`: instead of those that come
// with the program.
int run_program(Io& io, int argc, char** argv, std::optional<NamedStores> stores = std::nullopt);

}  // namespace dcp::cmd
