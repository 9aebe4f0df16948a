// What the name of an output says before anything is written.
#pragma once

#include <string>

namespace dcp::cmd {

// Throws usage for a folder with the name of a file: it would be taken for one, by people and by other tools.
void check_folder_name(const std::string& out);

// What the run would meet when it makes its first file, asked without making one. Throws io_create.
void check_writable(const std::string& out, bool is_folder);

}  // namespace dcp::cmd
