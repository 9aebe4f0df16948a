// One function a command: registers its text, its flags and what runs it.
#pragma once

#include "context.h"

namespace dcp::cmd {

void add_inspect(CLI::App& app, Context& context);
void add_verify(CLI::App& app, Context& context);
void add_consolidate(CLI::App& app, Context& context);
void add_ranks_command(CLI::App& app, Context& context);
void add_reshard(CLI::App& app, Context& context);
void add_convert(CLI::App& app, Context& context);
void add_cast(CLI::App& app, Context& context);
void add_bench(CLI::App& app, Context& context);
void add_help(CLI::App& app, Context& context);
void add_man(CLI::App& app, Context& context);
void add_completions(CLI::App& app, Context& context);

}  // namespace dcp::cmd
