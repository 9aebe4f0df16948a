// The texts of --help and -h.
#pragma once

#include <string>

#include "command.h"

namespace dcp::cmd {

// In lines of at most `width` columns, as far as words and command lines allow.
std::string help_text(const Command& command, size_t width);
// On one screen: options by name, examples.
std::string short_help_text(const Command& command, size_t width);

// "-j, --threads N"; a positional: "CKPT".
std::string option_head(const Option& option);

}  // namespace dcp::cmd
