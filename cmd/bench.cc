// dcpctl bench: measurements.
#include "bench.h"

#include <CLI/CLI.hpp>

#include "commands.h"

namespace dcp::cmd {

void add_bench(CLI::App& app, Context& context) {
  CLI::App* bench = app.add_subcommand("bench", "Measurements");
  bench->require_subcommand(1);
  add_bench_io(*bench, context);
  add_bench_staging(*bench, context);
}

}  // namespace dcp::cmd
