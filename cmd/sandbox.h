// --sandbox: a command that opens checkpoints reads what its command line names, writes where its output goes, and can do nothing else.
#pragma once

#include <optional>

#include "context.h"

namespace dcp::cmd {

enum class Access : uint8_t { kRead, kWrite };

// Say that the values of an option are paths that the command reads, or writes. What is not said here cannot be opened.
CLI::Option* reads(CLI::Option* option);
CLI::Option* writes(CLI::Option* option);
std::optional<Access> access_of(const CLI::Option& option);

void add_sandbox(CLI::App& command, Context& context);

// Confines the process, if the command has the option: before it opens anything, and before it has threads. Throws sandbox_lacking,
// sandbox_failed.
void enter_sandbox_of(const CLI::App& app, const Context& context);

}  // namespace dcp::cmd
