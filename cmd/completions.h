// Completion scripts, one function a shell. Each is static text; only names in a checkpoint or a run are asked of dcpctl.
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

// What --dtype takes, with spaces between.
std::string offered_dtypes();

}  // namespace dcp::cmd
