// dcpctl bench io: a synthetic sharded checkpoint, written natively, and what the program does with it beside plain copies.
#include <unistd.h>

#include <filesystem>
#include <optional>

#include "app/save.h"
#include "app/write.h"
#include "base/json.h"
#include "base/text.h"
#include "line/commands.h"
#include "line/option_values.h"
#include "line/sandbox.h"
#include "line/text_file.h"
#include "report/io_runs.h"

namespace dcp::cmd {
namespace {

constexpr const char* kText =
    R"(Writes a synthetic sharded checkpoint natively, as torch would (torch loads it), then measures consolidate, reshard and verify on it
beside plain copies and reads of the same bytes: a bare copy (same number of threads, 1 MiB blocks, space reserved), `cp`, a bare read.
Rounds are interleaved, nothing waits for the disk, and the best run of each counts.

Without OUT everything is kept in a hidden folder under --in and removed at the end. With OUT the checkpoint is kept; outputs lie beside it
during a run. Its tensors are the same for every layout, so results can be compared.

  dcpctl bench io --bytes 4GiB --in /scratch
  dcpctl bench io /scratch/synthetic --bytes 4GiB --world-size 4 \
    --layout shard1 --tensors 32 --generate-only)";

struct Options {
  std::string out, folder = ".", bytes = "1GiB", dtype = "float32", layout = "shard0";
  uint32_t world_size = 4, tensors = 32, threads = 0, repeats = 3;
  uint64_t seed = 1;
  bool force = false, generate_only = false;
};

SyntheticSpec spec_of(const Options& o) {
  const std::optional<DType> dtype = dtype_named(o.dtype);
  if (!dtype || facts_of(*dtype).kind == DTypeKind::kQuantized)
    fail(ProblemId::usage, {}, "dtype '" + o.dtype + "'", "a torch dtype such as bfloat16");
  SyntheticSpec spec{.bytes = parse_size(o.bytes), .world_size = o.world_size, .tensors = o.tensors, .dtype = *dtype, .seed = o.seed};
  spec.layout = o.layout == "shard0"   ? SyntheticSpec::Layout::kShard0
                : o.layout == "shard1" ? SyntheticSpec::Layout::kShard1
                                       : SyntheticSpec::Layout::kWhole;
  return spec;
}

std::string run(const Options& o, Context& context) {
  const SyntheticSpec spec = spec_of(o);
  if (o.out.empty() && (o.generate_only || o.force))
    fail(ProblemId::usage, {}, o.force ? "--force without OUT" : "--generate-only without OUT", "a folder to write");
  if (!o.out.empty()) check_output_free(context.io, o.out, true, o.force ? Replace::kYes : Replace::kNo);
  const unsigned workers = o.threads > 0 ? o.threads : default_workers();
  std::optional<Scratch> scratch;
  if (!o.generate_only) {
    const std::string parent = o.out.empty() ? o.folder : std::filesystem::path(o.out + "/..").lexically_normal().string();
    scratch.emplace(context.io, parent + "/.dcpctl-bench-" + std::to_string(getpid()));
  }
  const std::string checkpoint = o.out.empty() ? scratch->path() + "/checkpoint" : o.out;
  const uint64_t begin = context.io.now_ns();
  const SyntheticReport r = make_synthetic(context, checkpoint, spec, workers, o.force ? Replace::kYes : Replace::kNo);
  const uint64_t ns = context.io.now_ns() - begin;
  std::vector<TimedRun> runs;
  if (scratch) {
    runs = io_runs({checkpoint, scratch->path(), workers, o.world_size}, context);
    run_rounds(runs, o.repeats, context);
  }
  if (!context.common.json) {
    if (!context.common.quiet)
      context.print("wrote " + (o.out.empty() ? "a checkpoint" : escaped(o.out)) + ": " + grouped(spec.tensors) + " tensors, " +
                    grouped(r.items) + " items, " + human_bytes(r.file_bytes) + " in " + seconds(ns) + ", " + rate(r.file_bytes, ns) +
                    "\n");
    if (scratch) print_io_runs(runs, r.file_bytes, context);
  }
  std::string document = json_document([&](JsonWriter& json) {
    json.member("schema", "dcpctl.bench.io/1").member("path", checkpoint).member("kept", !o.out.empty());
    json.member("tensors", spec.tensors).member("items", r.items);
    json.member("tensor_bytes", r.tensor_bytes).member("file_bytes", r.file_bytes).member("seconds", static_cast<double>(ns) / 1e9);
    if (scratch) json_io_runs(runs, r.file_bytes, json);
  });
  if (context.common.json) context.print(document);
  return document;
}

}  // namespace

void add_bench_io(Command& c, Context& context) {
  auto options = std::make_shared<Options>();
  Options& o = *options;
  c.details = kText;
  c.argument("OUT", o.out, "Folder for the checkpoint, which is then kept").writes();
  c.option("--in", o.folder, "DIR", "Without OUT: where to put temporary data (default: here)").writes(Offer::kFolders);
  c.flag("--generate-only", o.generate_only, "Write the checkpoint and measure nothing else");
  c.number("--repeats", o.repeats, {1u, 1000u}, "N", "Rounds (default 3)");
  c.option("--bytes", o.bytes, "SIZE", "Bytes of all tensors together (default 1GiB)");
  c.number("--world-size", o.world_size, {1u, 65536u}, "N", "Ranks (default 4)");
  c.option("--layout", o.layout, "LAYOUT", "shard0 (default), shard1 or whole").one_of({"shard0", "shard1", "whole"});
  c.number("--tensors", o.tensors, {1u, 10000000u}, "N", "Tensors (default 32)");
  c.option("--dtype", o.dtype, "DTYPE", "Element type (default float32)").offers(Offer::kDtypes);
  c.number("--seed", o.seed, {uint64_t{0}, ~uint64_t{0}}, "N", "Seed of the values (default 1)");
  c.number("-j,--threads", o.threads, {1u, 1024u}, "N", "Worker threads");
  c.flag("--force", o.force, "Replace OUT").also({"--overwrite"});
  add_common(c, context.common, true);
  c.run = [options, &context] { return run_reported(context, {.output = options->out}, [&] { return run(*options, context); }); };
}

}  // namespace dcp::cmd
