// The text of --help.
#pragma once

#include <string>

#include "command.h"

namespace dcp::cmd {

std::string help_text(const Command& command);

// "-j, --threads N"; a positional: "CKPT".
std::string option_head(const Option& option);

}  // namespace dcp::cmd
