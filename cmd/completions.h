// Completion scripts, one function a shell. Each is static text: completing starts no dcpctl.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "command.h"

namespace dcp::cmd {

using Commands = std::vector<std::unique_ptr<Command>>;  // all of them, dcpctl first

std::string bash_completion(const Commands& all);
std::string zsh_completion(const Commands& all);
std::string fish_completion(const Commands& all);

// 'text', as bash and zsh read it.
std::string shell_quoted(std::string_view text);

}  // namespace dcp::cmd
