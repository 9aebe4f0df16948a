// Checks on the name of an output, before anything is written.
#pragma once

#include <string>

#include "base/io.h"

namespace dcp::cmd {

// Throws usage for a folder named like a file: people and other tools would take it for one.
void check_folder_name(const std::string& out);

// Throws io_create if the run could not create its first file; creates none.
void check_writable(Io& io, const std::string& out, bool is_folder);

}  // namespace dcp::cmd
