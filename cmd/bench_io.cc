// dcpctl bench io: a synthetic sharded checkpoint, written natively, and what the program does with it beside plain copies.
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <optional>

#include "app/synthetic.h"
#include "app/write.h"
#include "commands.h"
#include "sandbox.h"
#include "staging/chart.h"
#include "text_file.h"
#include "timed_runs.h"

namespace dcp::cmd {
namespace {

constexpr const char* kText =
    R"(Writes a synthetic sharded checkpoint natively, as torch would (torch loads it), then measures consolidate, reshard and verify on it
beside what only copies or reads the same bytes: a bare copy (as many threads, 1 MiB blocks, space reserved before), `cp`, a bare read.
Rounds are interleaved, nothing waits for the disk, and the best run of each counts.

Without OUT everything lies in a hidden folder under --in and is removed at the end. A checkpoint that is given a name is kept; what is made
of it lies beside it for the time of a run. Its tensors are the same whatever the layout, so results can be compared.

  dcpctl bench io --bytes 4GiB --in /scratch
  dcpctl bench io /scratch/synthetic --bytes 4GiB --world-size 4 \
    --layout shard1 --tensors 32 --generate-only)";

constexpr uint64_t kBlock = 1 << 20;

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

// A hidden folder that goes with everything in it, whatever happens.
class Scratch {
 public:
  Scratch(Io& io, std::string path) : path_(std::move(path)) { make_folder(io, path_); }
  ~Scratch() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

// The data files of a checkpoint, read whole in blocks; `use(file, offset, bytes)` from several threads.
template <class Use>
void read_all(Io& io, const std::vector<std::string>& paths, unsigned workers, const StopFlag& stop, const Use& use) {
  struct Block {
    size_t file;
    uint64_t offset, bytes;
  };
  std::vector<Block> blocks;
  std::vector<OpenFile> files;
  for (const std::string& path : paths) {
    files.emplace_back(io, io.open_read(path));
    const uint64_t bytes = io.facts(files.back().get()).bytes;
    for (uint64_t at = 0; at < bytes; at += kBlock) blocks.push_back({files.size() - 1, at, std::min(kBlock, bytes - at)});
  }
  std::vector<std::vector<std::byte>> buffers(workers, std::vector<std::byte>(kBlock));
  parallel_for(workers, blocks.size(), stop, [&](unsigned worker, uint64_t n) {
    const MutableBytes bytes = MutableBytes(buffers[worker]).first(blocks[n].bytes);
    read_exact(io, files[blocks[n].file].get(), blocks[n].offset, bytes);
    use(blocks[n].file, blocks[n].offset, bytes);
  });
}

// All files joined into one: what any consolidation must do at least.
void bare_copy(Io& io, const std::vector<std::string>& paths, const std::string& out, unsigned workers, const StopFlag& stop) {
  std::vector<uint64_t> begins;
  uint64_t total = 0;
  for (const std::string& path : paths) {
    begins.push_back(total);
    total += io.facts(path)->bytes;
  }
  const NameIn made = open_parent(io, out);
  const OpenFile to(io, io.create(made.folder.get(), made.name));
  io.allocate(to.get(), total);
  read_all(io, paths, workers, stop,
           [&](size_t file, uint64_t offset, Bytes bytes) { write_all(io, to.get(), begins[file] + offset, bytes); });
}

enum Run : size_t { kBareCopy, kCp, kTorch, kSafetensors, kReshard, kBareRead, kVerify };

std::vector<TimedRun> runs_of(const Options& o, const std::string& checkpoint, const std::string& scratch, unsigned workers,
                              Context& context) {
  std::vector<std::string> paths;
  for (const DirEntry& e : context.io.list(checkpoint))
    if (e.name.ends_with(".distcp")) paths.push_back(checkpoint + "/" + e.name);
  const std::string threads = "-j" + std::to_string(workers), copy = scratch + "/copy", report = scratch + "/report.json",
                    ranks = std::to_string(2 * o.world_size);
  const auto writer = [&](std::string name, std::vector<std::string> words, const std::string& out) {
    words.insert(words.begin() + 2, {checkpoint, out, "--no-sync", "--quiet", threads, "--report", report});
    return TimedRun{.name = std::move(name), .command = std::move(words), .output = out, .report = report, .beside = kBareCopy};
  };
  return {{.name = "bare copy",
           .body = [=, &context] { bare_copy(context.io, paths, copy, workers, context.stop); },
           .output = copy,
           .beside = kBareCopy},
          {.name = "cp -r", .command = {"cp", "-r", checkpoint, copy}, .output = copy, .beside = kBareCopy},
          writer("consolidate to .pt", {"dcpctl", "consolidate"}, scratch + "/out.pt"),
          writer("consolidate to .safetensors", {"dcpctl", "consolidate"}, scratch + "/out.safetensors"),
          writer("reshard to " + ranks + " ranks", {"dcpctl", "reshard", "--world-size", ranks}, scratch + "/resharded"),
          {.name = "bare read",
           .body = [=, &context] { read_all(context.io, paths, workers, context.stop, [](size_t, uint64_t, Bytes) {}); },
           .beside = kBareRead},
          {.name = "verify",
           .command = {"dcpctl", "verify", checkpoint, threads, "--quiet", "--report", report},
           .report = report,
           .beside = kBareRead}};
}

void print(const std::vector<TimedRun>& runs, uint64_t bytes, const Context& context) {
  Table t{.head = {"what", "best", "slowest", "GB/s", "beside bare", "peak memory"}, .rows = {}};
  for (const TimedRun& r : runs)
    t.rows.push_back({r.name, duration(r.best_ns()), duration(std::ranges::max(r.ns)),
                      gigabytes(static_cast<double>(bytes) * 1e9 / static_cast<double>(r.best_ns())),
                      fixed(static_cast<double>(r.best_ns()) / static_cast<double>(runs[r.beside].best_ns()), 2),
                      r.peak_memory_bytes > 0 ? human_bytes(r.peak_memory_bytes) : "-"});
  context.print("\n" + table_text(t, 1));
}

void json_runs(const std::vector<TimedRun>& runs, uint64_t bytes, JsonWriter& json) {
  json.key("runs").begin_array();
  for (const TimedRun& r : runs) {
    json.begin_object().member("name", r.name).key("seconds").begin_array();
    for (const uint64_t ns : r.ns) json.value(static_cast<double>(ns) / 1e9);
    json.end_array()
        .member("best_seconds", static_cast<double>(r.best_ns()) / 1e9)
        .member("rate", static_cast<double>(bytes) * 1e9 / static_cast<double>(r.best_ns()));
    json.member("beside", runs[r.beside].name)
        .member("ratio", static_cast<double>(r.best_ns()) / static_cast<double>(runs[r.beside].best_ns()));
    if (r.peak_memory_bytes > 0) json.member("peak_memory_bytes", r.peak_memory_bytes);
    json.end_object();
  }
  json.end_array();
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
    runs = runs_of(o, checkpoint, scratch->path(), workers, context);
    run_rounds(runs, o.repeats, context);
  }
  if (!context.common.json) {
    if (!context.common.quiet)
      context.print("wrote " + (o.out.empty() ? "a checkpoint" : escaped(o.out)) + ": " + grouped(spec.tensors) + " tensors, " +
                    grouped(r.items) + " items, " + human_bytes(r.file_bytes) + " in " + seconds(ns) + ", " + rate(r.file_bytes, ns) +
                    "\n");
    if (scratch) print(runs, r.file_bytes, context);
  }
  std::string document;
  JsonWriter json([&](std::string_view text) { document += text; });
  json.begin_object()
      .member("schema", "dcpctl.bench.io/1")
      .member("path", checkpoint)
      .member("kept", !o.out.empty())
      .member("tensors", spec.tensors)
      .member("items", r.items);
  json.member("tensor_bytes", r.tensor_bytes).member("file_bytes", r.file_bytes).member("seconds", static_cast<double>(ns) / 1e9);
  if (scratch) json_runs(runs, r.file_bytes, json);
  json.end_object();
  json.finish();
  if (context.common.json) context.print(document);
  return document;
}

}  // namespace

void add_bench_io(Command& c, Context& context) {
  auto options = std::make_shared<Options>();
  Options& o = *options;
  c.details = kText;
  c.argument("OUT", o.out, "Folder for the checkpoint, which is kept then").writes();
  c.option("--in", o.folder, "DIR", "Without OUT: where data lies for the time being (default: here)").writes(Offer::kFolders);
  c.flag("--generate-only", o.generate_only, "Write the checkpoint and measure nothing else");
  c.number("--repeats", o.repeats, {1u, 1000u}, "N", "Rounds (default 3)");
  c.option("--bytes", o.bytes, "SIZE", "Bytes of all tensors together (default 1GiB)");
  c.number("--world-size", o.world_size, {1u, 65536u}, "N", "Ranks (default 4)");
  c.option("--layout", o.layout, "LAYOUT", "shard0 (default), shard1 or whole").one_of({"shard0", "shard1", "whole"});
  c.number("--tensors", o.tensors, {1u, 10000000u}, "N", "Tensors (default 32)");
  c.option("--dtype", o.dtype, "DTYPE", "Element type (default float32)").offers(Offer::kDtypes);
  c.number("--seed", o.seed, {uint64_t{0}, ~uint64_t{0}}, "N", "Seed of the values (default 1)");
  c.number("-j,--threads", o.threads, {1u, 1024u}, "N", "Worker threads");
  c.flag("--force", o.force, "Replace OUT");
  add_common(c, context, true);
  c.run = [options, &context] { return run_reported(context, {.output = options->out}, [&] { return run(*options, context); }); };
}

}  // namespace dcp::cmd
