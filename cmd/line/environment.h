// What the environment of the process says: where modules are, and which rank of a launcher this is.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "app/requests.h"

namespace dcp::cmd {

// Where modules (modules/loader.h) are looked for: DCPCTL_MODULE_DIR, the folder of the program, and where an installation has modules.
std::vector<std::string> module_folders();

// A variable of the environment.
std::optional<std::string> variable(const std::string& name);

// What a launcher's variables say; nullopt: there is none. Throws launch_unclear.
std::optional<Launch> launch_here();

}  // namespace dcp::cmd
