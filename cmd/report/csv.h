// Tables for spreadsheets: RFC 4180.
#pragma once

#include <string>

#include "line/lines.h"

namespace dcp::cmd {

// A row with its line end. Fields are escaped as on a terminal, and quoted where they have to be.
std::string csv_row(const Cells& fields);

}  // namespace dcp::cmd
