// Which dcpctl this is.
#pragma once

#include "context.h"

namespace dcp::cmd {

// Version, commit, and the modules that are found; returns the exit code.
int print_version(const Context& context);

}  // namespace dcp::cmd
