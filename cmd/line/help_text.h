// The texts of --help and -h.
#pragma once

#include <unistd.h>

#include <string>

#include "line/command.h"

namespace dcp::cmd {

struct HelpForm {
  size_t columns = 80;  // maximum line width, as far as words and command lines allow
  bool color = false;   // of headings
};
HelpForm help_form(const Context& context, int fd = STDOUT_FILENO);
std::string help_text(const Command& command, HelpForm form);
// On one screen: options by name, examples.
std::string short_help_text(const Command& command, HelpForm form);

// "-j, --threads N"; a positional: "CKPT".
std::string option_head(const Option& option);

}  // namespace dcp::cmd
