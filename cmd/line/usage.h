// Parses the command line, and explains what is wrong with it.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/problem.h"
#include "line/command.h"

namespace dcp::cmd {

struct CommandLine {
  std::unique_ptr<Command> command;  // the named command, its options read; dcpctl itself if none was named
  Action requested = Action::kRun;
  bool names_nothing = false;  // nothing but a group of commands was typed; its short help, which is requested, says what is missing
};

// `words`: without the program's name. Throws usage, naming the first error and what was probably meant.
CommandLine read_command_line(const std::vector<std::string>& words, Context& context);

// The command that `words` ("bench", "io") name. Throws usage.
std::unique_ptr<Command> command_of_words(const std::vector<std::string>& words, Context& context);

}  // namespace dcp::cmd
