// --sandbox: a command that opens checkpoints reads what its command line names, writes where its output goes, and can do nothing else.
#pragma once

#include "command.h"
#include "context.h"

namespace dcp::cmd {

void add_sandbox(Command& command, Context& context);

// Confines the process, if the command has the option, to the paths whose options say `reads` or `writes`: before it opens anything, and
// before it has threads. Throws sandbox_lacking, sandbox_failed.
void enter_sandbox_of(Command& command, Context& context);

// Whether a launcher has started this process as one of several ranks.
bool is_one_of_several();

}  // namespace dcp::cmd
