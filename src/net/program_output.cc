// credential_process: programs that print credentials.
#include <fcntl.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/posix_calls.h"
#include "net/answers.h"
#include "net/aws_credentials.h"

extern char** environ;

namespace dcp::net {

std::vector<std::string> shell_words(std::string_view text) {
  std::vector<std::string> words;
  bool in_word = false;
  char quote = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (!quote && (c == ' ' || c == '\t' || c == '\n')) {
      in_word = false;
      continue;
    }
    if (!in_word) words.emplace_back();
    in_word = true;
    const bool escapes = c == '\\' && quote != '\'' && i + 1 < text.size() && (!quote || text[i + 1] == '"' || text[i + 1] == '\\');
    if (escapes) words.back() += text[++i];
    else if (!quote && (c == '\'' || c == '"')) quote = c;
    else if (quote && c == quote) quote = 0;
    else words.back() += c;
  }
  return words;
}

namespace {

// How a program ended, and the first line of what it complained of.
std::string end_of(int status, int complaint) {
  std::string text(4096, '\0');
  text.resize(static_cast<size_t>(std::max<ssize_t>(::pread(complaint, text.data(), text.size(), 0), 0)));
  text = trimmed(text);
  const std::string line = text.substr(0, std::min<size_t>(text.find('\n'), 300));
  return (WIFEXITED(status) ? "it ended with exit code " + std::to_string(WEXITSTATUS(status))
                            : "signal " + std::to_string(WTERMSIG(status)) + " ended it") +
         (line.empty() ? "" : ": " + line);
}

}  // namespace

std::optional<std::string> output_of(const std::vector<std::string>& words, std::string& why) {
  int ends[2];
  why = "no command";
  if (words.empty()) return std::nullopt;
  const posix::Fd complaint(::memfd_create("complaint", MFD_CLOEXEC));
  if (!complaint || ::pipe2(ends, O_CLOEXEC) != 0) return why = posix::reason_of(errno), std::nullopt;
  posix::Fd reading(ends[0]);
  std::vector<char*> argv;
  for (const std::string& w : words) argv.push_back(const_cast<char*>(w.c_str()));
  argv.push_back(nullptr);
  pid_t child = 0;
  int failed = 0;
  {
    const posix::Fd writing(ends[1]);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, writing.get(), STDOUT_FILENO);
    posix_spawn_file_actions_adddup2(&actions, complaint.get(), STDERR_FILENO);
    failed = ::posix_spawnp(&child, argv[0], &actions, nullptr, argv.data(), environ);
    posix_spawn_file_actions_destroy(&actions);
  }
  if (failed != 0) return why = words[0] + " cannot be started: " + posix::reason_of(failed), std::nullopt;
  std::string text(1 << 20, '\0');
  size_t bytes = 0;
  for (ssize_t n = 1; n > 0 && bytes < text.size(); bytes += static_cast<size_t>(std::max<ssize_t>(n, 0)))
    n = posix::retry([&] { return ::read(reading.get(), text.data() + bytes, text.size() - bytes); });
  reading = posix::Fd();  // a child that prints more gets to know
  int status = 0;
  posix::retry([&] { return ::waitpid(child, &status, 0); });
  text.resize(bytes);
  why = end_of(status, complaint.get());
  return status == 0 ? std::optional(std::move(text)) : std::nullopt;
}

}  // namespace dcp::net
