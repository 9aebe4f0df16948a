// The text of --help.
#pragma once

#include <string>

#include "command_tree.h"

namespace dcp::cmd {

std::string help_text(const CommandText& command);

// "-j, --threads N"; a positional: "CKPT".
std::string option_head(const OptionText& option);

}  // namespace dcp::cmd
