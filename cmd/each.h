// `verify step-*`: a command for each of several checkpoints, each in a process of its own. So each has the memory of --max-memory, may
// read its own checkpoint alone, and takes no other with it when it fails.
#pragma once

#include <functional>

#include "command.h"
#include "context.h"

namespace dcp::cmd {

// The argument that was given several times and is taken one by one; nullptr: there is none.
Option* several(Command& command);

// `run_one` for each value of `argument`. Their JSON documents become one, which holds them in the order of the command line. Returns the
// highest exit code.
int run_each(const Command& command, Option& argument, Context& context, const std::function<int()>& run_one);

}  // namespace dcp::cmd
