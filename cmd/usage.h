// The command line as it was given, and what is said about a wrong one.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/problem.h"
#include "command.h"

namespace dcp::cmd {

struct CommandLine {
  std::unique_ptr<Command> command;  // that was named, its options read; dcpctl itself if none was
  Action requested = Action::kRun;
};

// `words`: without the program's name. Throws usage, which names the first thing that is wrong and what was probably meant.
CommandLine read_command_line(const std::vector<std::string>& words, Context& context);

// The command that `words` ("bench", "io") name. Throws usage.
std::unique_ptr<Command> command_of_words(const std::vector<std::string>& words, Context& context);

}  // namespace dcp::cmd
