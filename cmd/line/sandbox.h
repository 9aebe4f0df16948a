// --sandbox: a command that opens checkpoints reads what its command line names, writes where its output goes, and can do nothing else.
#pragma once

#include "line/command.h"
#include "line/context.h"

namespace dcp::cmd {

void add_sandbox(Command& command, Context& context);

// Throws if an output is not on a disk: store_read_only, store_unknown.
void check_outputs_of(const Command& command, Context& context);

// If the command has the option, confines the process to the paths of options declared `reads` or `writes`. Call before opening anything
// and before starting threads. Throws sandbox_lacking, sandbox_failed.
void enter_sandbox_of(Command& command, Context& context);

// Whether a launcher has started this process as one of several ranks.
bool is_one_of_several();

}  // namespace dcp::cmd
