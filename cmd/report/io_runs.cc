#include "report/io_runs.h"

#include <algorithm>
#include <filesystem>

#include "base/text.h"
#include "base/workers.h"
#include "catalog/kind.h"
#include "staging/chart.h"

namespace dcp::cmd {
namespace {

constexpr uint64_t kBlock = 1 << 20;

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

}  // namespace

Scratch::Scratch(Io& io, std::string path) : path_(std::move(path)) { make_folder(io, path_); }

Scratch::~Scratch() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

std::vector<TimedRun> io_runs(const IoRuns& what, Context& context) {
  const auto& [checkpoint, scratch, workers, ranks] = what;
  std::vector<std::string> paths;
  for (const DirEntry& e : context.io.list(checkpoint))
    if (role_of(e.name) == FileRole::kData) paths.push_back(checkpoint + "/" + e.name);
  const std::string jobs = "-j" + std::to_string(workers), copy = scratch + "/copy", report = scratch + "/report.json",
                    world_size = std::to_string(2 * ranks);
  const auto writer = [&](std::string name, std::vector<std::string> words, const std::string& out) {
    words.insert(words.begin() + 2, {checkpoint, out, "--no-sync", "--quiet", jobs, "--report", report});
    return TimedRun{.name = std::move(name), .command = std::move(words), .output = out, .report = report, .beside = kBareCopy};
  };
  return {{.name = "bare copy",
           .body = [=, &context, threads = what.workers] { bare_copy(context.io, paths, copy, threads, context.stop); },
           .output = copy,
           .beside = kBareCopy},
          {.name = "cp -r", .command = {"cp", "-r", checkpoint, copy}, .output = copy, .beside = kBareCopy},
          writer("consolidate to .pt", {"dcpctl", "consolidate"}, scratch + "/out.pt"),
          writer("consolidate to .safetensors", {"dcpctl", "consolidate"}, scratch + "/out.safetensors"),
          writer("reshard to " + world_size + " ranks", {"dcpctl", "reshard", "--world-size", world_size}, scratch + "/resharded"),
          {.name = "bare read",
           .body = [=, &context,
                    threads = what.workers] { read_all(context.io, paths, threads, context.stop, [](size_t, uint64_t, Bytes) {}); },
           .beside = kBareRead},
          {.name = "verify",
           .command = {"dcpctl", "verify", checkpoint, jobs, "--quiet", "--report", report},
           .report = report,
           .beside = kBareRead}};
}

void print_io_runs(const std::vector<TimedRun>& runs, uint64_t bytes, const Context& context) {
  Table t{.head = {"what", "best", "slowest", "GB/s", "beside bare", "peak memory"}, .rows = {}};
  for (const TimedRun& r : runs)
    t.rows.push_back({r.name, duration(r.best_ns()), duration(std::ranges::max(r.ns)),
                      gigabytes(static_cast<double>(bytes) * 1e9 / static_cast<double>(r.best_ns())),
                      fixed(static_cast<double>(r.best_ns()) / static_cast<double>(runs[r.beside].best_ns()), 2),
                      r.peak_memory_bytes > 0 ? human_bytes(r.peak_memory_bytes) : "-"});
  context.print((context.common.quiet ? "" : "\n") + table_text(t, 1));  // quiet: nothing stands above it
}

void json_io_runs(const std::vector<TimedRun>& runs, uint64_t bytes, JsonWriter& json) {
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

}  // namespace dcp::cmd
