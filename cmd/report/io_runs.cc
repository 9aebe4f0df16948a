#include "report/io_runs.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/limits.h"
#include "base/posix_calls.h"
#include "base/text.h"
#include "base/workers.h"
#include "catalog/kind.h"
#include "line/lines.h"
#include "line/progress.h"

extern char** environ;

namespace dcp::cmd {
namespace {

// A child's stderr, unnamed and gone with it.
class CapturedStderr {
 public:
  CapturedStderr() : file_(std::tmpfile()) {
    if (file_ == nullptr) fail(ProblemId::io_create, {.path = "temporary file"}, posix::reason_of(errno));
  }
  ~CapturedStderr() { std::fclose(file_); }
  CapturedStderr(const CapturedStderr&) = delete;
  CapturedStderr& operator=(const CapturedStderr&) = delete;
  int fd() const { return fileno(file_); }
  std::string first_line() const {
    char text[512] = "";
    const ssize_t n = pread(fd(), text, sizeof text - 1, 0);
    const std::string all(text, n > 0 ? static_cast<size_t>(n) : 0);
    return all.substr(0, all.find('\n'));
  }

 private:
  std::FILE* file_;
};

pid_t start(const std::vector<std::string>& command, const CapturedStderr& captured) {
  std::vector<char*> words;
  for (const std::string& w : command) words.push_back(const_cast<char*>(w.c_str()));
  words.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
  posix_spawn_file_actions_adddup2(&actions, captured.fd(), STDERR_FILENO);
  pid_t child = 0;
  const bool own = command.front() == "dcpctl";
  const int error = own ? posix_spawn(&child, "/proc/self/exe", &actions, nullptr, words.data(), environ)
                        : posix_spawnp(&child, words[0], &actions, nullptr, words.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  if (error != 0) fail(ProblemId::bench_run_failed, {.path = command.front()}, posix::reason_of(error));
  return child;
}

void run_command(const std::vector<std::string>& command, Context& context) {
  const CapturedStderr captured;
  const pid_t child = start(command, captured);
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR)
    if (context.stop.load() != 0) kill(child, SIGTERM);
  context.check_stop();
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
    fail(ProblemId::bench_run_failed, {.path = joined(command, " ")}, captured.first_line());
}

// The system's own figure for a child (ru_maxrss) is not less than this program's at its start.
uint64_t reported_memory(const std::string& report, Context& context) {
  if (report.empty()) return 0;
  const std::vector<std::byte> bytes = read_file(context.io, report, Limits{}.json_bytes);
  const auto document = nlohmann::json::parse(as_text(bytes), nullptr, false);
  return document.is_object() ? document.value("peak_memory_bytes", uint64_t{0}) : 0;
}

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

uint64_t TimedRun::best_ns() const { return *std::ranges::min_element(ns); }

void run_rounds(std::vector<TimedRun>& runs, unsigned rounds, Context& context) {
  StepDisplay steps(context, rounds * runs.size());
  for (unsigned round = 0; round < rounds; ++round) {
    for (TimedRun& r : runs) {
      context.check_stop();
      const std::string what = "round " + std::to_string(round + 1) + ": " + r.name;
      context.verbose(what);
      steps.begin(what);
      ::sync();
      const uint64_t begin = context.io.now_ns();
      if (r.command.empty()) r.body();
      else run_command(r.command, context);
      r.ns.push_back(context.io.now_ns() - begin);
      r.peak_memory_bytes = std::max(r.peak_memory_bytes, reported_memory(r.report, context));
      if (!r.output.empty()) std::filesystem::remove_all(r.output);
    }
  }
}

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
  if (!context.common.quiet) context.print("\n");
  print_table(context, t);
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
