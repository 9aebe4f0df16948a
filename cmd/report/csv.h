// Tables for spreadsheets: RFC 4180.
#pragma once

#include <string>

#include "line/context.h"
#include "line/lines.h"

namespace dcp::cmd {

// A row with its line end. Fields are escaped as on a terminal, and quoted where they have to be.
std::string csv_row(const Cells& fields);
// Once, whatever the number of checkpoints.
void print_csv_head(const Cells& names, const Context& context);

}  // namespace dcp::cmd
