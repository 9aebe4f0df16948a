// One function per command: declares its text, its options and what to run.
#pragma once

#include "line/command.h"
#include "line/context.h"

namespace dcp::cmd {

#define DCPCTL_COMMAND(path, function, about) void add_##function(Command&, Context&);
#define DCPCTL_GROUP(path, about)
#include "line/commands.def"
#undef DCPCTL_COMMAND
#undef DCPCTL_GROUP

}  // namespace dcp::cmd
