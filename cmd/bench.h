// The commands under `dcpctl bench`.
#pragma once

#include "context.h"

namespace dcp::cmd {

void add_bench_io(CLI::App& bench, Context& context);
void add_bench_staging(CLI::App& bench, Context& context);

}  // namespace dcp::cmd
