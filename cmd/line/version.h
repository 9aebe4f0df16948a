// Which dcpctl this is.
#pragma once

#include "line/context.h"

namespace dcp::cmd {

std::string program_commit();   // "": unknown
std::string program_version();  // "0.9.0 (commit 1a2b3c4)"

// Version, commit, and the modules that are found; returns the exit code.
int print_version(const Context& context);

}  // namespace dcp::cmd
