// dcpctl bench: measurements. `bench io` writes the synthetic sharded checkpoint that they are made on.
#include <CLI/CLI.hpp>

#include "commands.h"
#include "exec/file_set.h"
#include "exec/synthetic.h"

namespace dcp::cmd {
namespace {

constexpr const char* kText = R"(Writes a synthetic sharded checkpoint natively, as torch would (torch loads it), and says how fast. Its tensors are the same
whatever the layout, so results can be compared.

  dcpctl bench io /scratch/synthetic --bytes 4GiB --world-size 4 --layout shard1 --tensors 32)";

struct Options {
  std::string out, bytes = "1GiB", dtype = "float32", layout = "shard0";
  uint32_t world_size = 4, tensors = 32, threads = 0;
  uint64_t seed = 1;
  bool force = false;
};

SyntheticSpec spec_of(const Options& o) {
  const std::optional<DType> dtype = dtype_named(o.dtype);
  if (!dtype || facts_of(*dtype).kind == DTypeKind::kQuantized) fail(ProblemId::usage, {}, "dtype '" + o.dtype + "'", "a torch dtype such as bfloat16");
  SyntheticSpec spec{.bytes = parse_size(o.bytes), .world_size = o.world_size, .tensors = o.tensors, .dtype = *dtype, .seed = o.seed};
  spec.layout = o.layout == "shard0" ? SyntheticSpec::Layout::kShard0 : o.layout == "shard1" ? SyntheticSpec::Layout::kShard1 : SyntheticSpec::Layout::kWhole;
  return spec;
}

int run(const Options& o, Context& context) {
  const SyntheticSpec spec = spec_of(o);
  const uint64_t begin = context.io.now_ns();
  const unsigned workers = o.threads > 0 ? o.threads : default_workers();
  const SyntheticReport r = write_synthetic(context.io, o.out, spec, workers, o.force ? Replace::kYes : Replace::kNo, context.stop);
  const uint64_t ns = context.io.now_ns() - begin;
  if (!context.common.json) {
    if (!context.common.quiet)
      context.out("wrote " + escaped(o.out) + ": " + grouped(spec.tensors) + " tensors, " + grouped(r.items) + " items, " + human_bytes(r.file_bytes) + " in " +
                  seconds(ns) + ", " + rate(r.file_bytes, ns) + "\n");
    return 0;
  }
  JsonWriter json([&](std::string_view text) { context.out(text); });
  json.begin_object().member("schema", "dcpctl.bench.io/1").member("path", o.out).member("tensors", spec.tensors).member("items", r.items);
  json.member("tensor_bytes", r.tensor_bytes).member("file_bytes", r.file_bytes).member("seconds", static_cast<double>(ns) / 1e9).end_object();
  json.finish();
  return 0;
}

}  // namespace

void add_bench(CLI::App& app, Context& context) {
  auto options = std::make_shared<Options>();
  CLI::App* bench = app.add_subcommand("bench", "Measurements");
  bench->require_subcommand(1);
  CLI::App* io = bench->add_subcommand("io", "A synthetic sharded checkpoint, written at the speed of the disk");
  io->footer(kText);
  io->add_option("OUT", options->out, "Folder to write")->required();
  io->add_option("--bytes", options->bytes, "Bytes of all tensors together (default 1GiB)")->option_text("SIZE");
  io->add_option("--world-size", options->world_size, "Ranks (default 4)")->option_text("N")->check(CLI::Range(1, 65536));
  io->add_option("--layout", options->layout, "shard0 (default), shard1 or whole")->option_text("LAYOUT")->check(CLI::IsMember({"shard0", "shard1", "whole"}));
  io->add_option("--tensors", options->tensors, "Tensors (default 32)")->option_text("N")->check(CLI::Range(1, 10000000));
  io->add_option("--dtype", options->dtype, "Element type (default float32)")->option_text("DTYPE");
  io->add_option("--seed", options->seed, "Seed of the values (default 1)")->option_text("N");
  io->add_option("-j,--threads", options->threads, "Worker threads")->option_text("N")->check(CLI::Range(1, 1024));
  io->add_flag("--force", options->force, "Replace OUT");
  add_common(*io, context, false);
  io->callback([options, &context] {
    context.command = "bench io";
    context.run = [options, &context] { return run(*options, context); };
  });
}

}  // namespace dcp::cmd
