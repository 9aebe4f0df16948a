// Completion scripts, one function per shell. Each is static text; it asks dcpctl only for names in a checkpoint or a run.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "command.h"
#include "option_values.h"

namespace dcp::cmd {

using Commands = std::vector<std::unique_ptr<Command>>;  // all of them, dcpctl first

std::string bash_completion(const Commands& all);
std::string zsh_completion(const Commands& all);
std::string fish_completion(const Commands& all);

// The values of --dtype, separated by spaces.
std::string offered_dtypes();

}  // namespace dcp::cmd
