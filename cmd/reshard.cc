// dcpctl reshard: a new DCP folder laid out for another number of ranks.
#include <CLI/CLI.hpp>

#include "commands.h"
#include "plan/dcp_layout.h"
#include "writer.h"

namespace dcp::cmd {
namespace {

constexpr const char* kText = R"(Writes CKPT anew for N ranks, one file a rank, without starting any. What is sharded in CKPT is split on dim 0 as FSDP2 does; what it
stores whole beside that (buffers, replicated tensors) stays whole; a CKPT in which nothing is sharded is split throughout. Python
objects are copied as they are.

Every CRC that the checkpoint holds is checked on the way, and every tensor gets a new one. OUT appears whole or not at all.

  dcpctl reshard step-1000 step-1000-on-8 --world-size 8
  dcpctl reshard step-1000 merged --world-size 1 --model-only
  dcpctl reshard step-1000 on-64 --world-size 64 --dry-run)";

struct Options {
  WriterFlags writer;
  uint32_t world_size = 0;
};

int run(const Options& o, Context& context, WriteReport& report) {
  const auto make_plan = [&](const Catalog& catalog, const Resolved& resolved, const Selection& selection) {
    DcpLayoutOptions layout{.limits = {}, .units = {}, .world_size = o.world_size, .mesh = {}, .rules = {}};
    layout.units.verify = !o.writer.no_verify;
    return plan_dcp(catalog, resolved, selection, layout);
  };
  return write_output(o.writer, context, report, {.folder = true, .blobs = true, .blob_use = BlobUse::kWhole}, make_plan);
}

void add_flags(CLI::App& c, Options& o) {
  const std::string layout = "Layout";
  add_writer_keys(c, o.writer, "DCP folder to write");
  c.add_option("--world-size", o.world_size, "Ranks to write for")->option_text("N")->group(layout)->check(CLI::Range(1, 65536))->required();
  add_writer_writing(c, o.writer);
}

}  // namespace

void add_reshard(CLI::App& app, Context& context) {
  auto options = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand("reshard", "The same checkpoint laid out for another number of ranks");
  command->footer(kText);
  add_flags(*command, *options);
  add_common(*command, context, true);
  command->callback([options, &context] {
    context.command = "reshard";
    context.run = [options, &context] {
      WriteReport report(options->writer.source.path, options->writer.out);
      return report.around(context, [&] { return run(*options, context, report); });
    };
  });
}

}  // namespace dcp::cmd
