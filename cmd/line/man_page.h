// Manual pages in roff, from the declarations of commands. They carry no date: the same declarations give the same bytes.
#pragma once

#include <string>

#include "line/command.h"

namespace dcp::cmd {

std::string man_page(const Command& command);

}  // namespace dcp::cmd
