// dcpctl as a function of the outside world: called by main, and by fault tests with a world that fails. And which dcpctl this is.
#pragma once

#include <optional>
#include <string>

#include "base/io.h"
#include "base/stores.h"

namespace dcp::cmd {

struct Context;

// Installs signal handlers for the life of the process, so call it only once. Returns the exit code. `stores`: instead of those that come
// with the program.
int run_program(Io& io, int argc, char** argv, std::optional<NamedStores> stores = std::nullopt);

std::string program_commit();   // "": unknown
std::string program_version();  // "0.9.0 (commit 1a2b3c4)"

// Version, commit, and the modules that are found; returns the exit code.
int print_version(const Context& context);

}  // namespace dcp::cmd
