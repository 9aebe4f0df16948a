#include "report/timed_runs.h"

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
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
    std::string line;
    for (const std::string& w : command) line += (line.empty() ? "" : " ") + w;
    fail(ProblemId::bench_run_failed, {.path = line}, captured.first_line());
  }
}

// The system's own figure for a child (ru_maxrss) is not less than this program's at its start.
uint64_t reported_memory(const std::string& report, Context& context) {
  if (report.empty()) return 0;
  const std::vector<std::byte> bytes = read_file(context.io, report, Limits{}.json_bytes);
  const auto document = nlohmann::json::parse(as_text(bytes), nullptr, false);
  return document.is_object() ? document.value("peak_memory_bytes", uint64_t{0}) : 0;
}

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

}  // namespace dcp::cmd
