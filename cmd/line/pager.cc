#include "line/pager.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <memory>
#include <sstream>
#include <string_view>
#include <utility>

extern char** environ;

namespace dcp::cmd {

Viewer::Viewer(std::vector<std::string> words) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return;
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, ends[0], STDIN_FILENO);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  sigset_t ignored_here;
  sigemptyset(&ignored_here);
  for (const int signal : {SIGPIPE, SIGXFSZ}) sigaddset(&ignored_here, signal);
  posix_spawnattr_setsigdefault(&attributes, &ignored_here);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGDEF);
  std::vector<char*> argv;
  for (std::string& w : words) argv.push_back(w.data());
  argv.push_back(nullptr);
  if (posix_spawnp(&child_, argv.front(), &actions, &attributes, argv.data(), environ) != 0) child_ = -1;
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&actions);
  ::close(ends[0]);
  input_ = ends[1];
}

bool Viewer::close() {
  if (input_ >= 0) ::close(std::exchange(input_, -1));
  const pid_t child = std::exchange(child_, -1);
  int status = 0;
  while (child > 0 && ::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  return child > 0 && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

namespace {

// {}: none is wanted.
std::vector<std::string> pager_words() {
  const char* chosen = std::getenv("DCPCTL_PAGER");
  if (chosen == nullptr) chosen = std::getenv("PAGER");
  if (chosen == nullptr) return {"less"};
  const std::string_view command = chosen;
  if (command.empty() || command == "cat") return {};
  if (command.find_first_of("|&;<>()$`\\\"'*?[]#~=%{}\n") != command.npos) return {"sh", "-c", std::string(command)};
  std::vector<std::string> words;  // without the shell, one that cannot be started is known before the answer goes to it
  std::istringstream text{std::string(command)};
  for (std::string word; text >> word;) words.push_back(word);
  return words;
}

}  // namespace

Pager::Pager(Context& context) : context_(context) {
  const char* term = std::getenv("TERM");
  if (context.common.no_pager || !isatty(STDOUT_FILENO) || term == nullptr || std::string_view(term) == "dumb") return;
  std::vector<std::string> words = pager_words();
  if (words.empty()) return;
  ::setenv("LESS", "FRX", 0);  // leave what fits a screen there and end, pass colours on; git asks for the same
  ::setenv("LV", "-c", 0);
  const std::string pager = words.front();
  const bool words_given = pager != "less";
  viewer_ = std::make_unique<Viewer>(std::move(words));
  if (!viewer_->is_there()) {
    if (words_given) context.info("the pager '" + pager + "' cannot be started");
    viewer_.reset();
    return;
  }
  context.paged_columns = context.columns(STDOUT_FILENO);
  terminal_ = ::fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3);
  ::dup2(viewer_->input(), STDOUT_FILENO);
}

Pager::~Pager() {
  if (!viewer_) return;
  std::signal(SIGINT, SIG_IGN);  // from here on it is for who looks
  ::dup2(terminal_, STDOUT_FILENO);
  ::close(terminal_);
  context_.paged_columns = 0;
  viewer_->close();
}

}  // namespace dcp::cmd
