// Completion scripts, one function a shell. Each is static text: completing starts no dcpctl.
#pragma once

#include <string>

#include "command_tree.h"

namespace dcp::cmd {

std::string bash_completion(const CommandText& root);
std::string zsh_completion(const CommandText& root);
std::string fish_completion(const CommandText& root);

// "bench io": how the scripts call a command; the root is "".
std::string short_path(const CommandText& command);

// 'text', as bash and zsh read it.
std::string shell_quoted(std::string_view text);

}  // namespace dcp::cmd
