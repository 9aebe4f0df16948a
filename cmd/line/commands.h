// One function per command: declares its text, its options and what to run.
#pragma once

#include "line/command.h"
#include "line/context.h"

namespace dcp::cmd {

#define DCPCTL_COMMAND(path, function, question, about) void add_##function(Command&, Context&);
#define DCPCTL_GROUP(path, question, about)
#define DCPCTL_ALIAS(name, path, is_told)
#include "line/commands.def"
#undef DCPCTL_COMMAND
#undef DCPCTL_GROUP
#undef DCPCTL_ALIAS

}  // namespace dcp::cmd
