// `verify step-*`: runs a command for each of several checkpoints, each in its own process. So each has all of --max-memory, may read only
// its own checkpoint, and cannot affect the others when it fails.
#pragma once

#include <functional>

#include "line/command.h"
#include "line/context.h"

namespace dcp::cmd {

// The argument that was given several times and is handled one by one; nullptr: there is none.
Option* several(Command& command);

// Calls `run_one` for each value of `argument`. Combines their JSON documents into one, in command line order. Returns the highest exit
// code.
int run_each(const Command& command, Option& argument, Context& context, const std::function<int()>& run_one);

}  // namespace dcp::cmd
