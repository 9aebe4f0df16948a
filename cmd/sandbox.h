// --sandbox: a command that opens checkpoints reads what its command line names, writes where its output goes, and can do nothing else.
#pragma once

#include "context.h"

namespace dcp::cmd {

void add_sandbox(CLI::App& command, Context& context);

// Confines the process, if the command has the option: before it opens anything, and before it has threads. Throws sandbox_lacking, sandbox_failed.
void enter_sandbox_of(const CLI::App& app, const Context& context);

}  // namespace dcp::cmd
