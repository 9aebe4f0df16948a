#include "line/each.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>

#include "base/json.h"
#include "base/posix_calls.h"
#include "line/exit_status.h"
#include "line/lines.h"
#include "line/sandbox.h"
#include "line/text_file.h"

namespace dcp::cmd {
namespace {

struct Ended {
  int exit = 0;
  std::string document;

  bool answered() const { return exit <= static_cast<int>(Exit::kAnswerNo); }
};

[[noreturn]] void be_one(Option& argument, const std::string& value, Context& context, int report_fd, const std::function<int()>& run_one) {
  context.report_fd = report_fd;
  if (report_fd >= 0 && context.common.report.empty()) context.common.report = "-";  // as if one was asked for
  if (context.common.json) {                                                         // the document goes to who joins them
    const int nowhere = ::open("/dev/null", O_WRONLY | O_CLOEXEC);
    ::dup2(nowhere, STDOUT_FILENO);
  }
  argument.given = {value};
  argument.take(value);
  ::_exit(run_one());
}

Ended wait_for(pid_t child, int from, const std::string& value, const Context& context) {
  Ended ended;
  char block[65536];
  for (bool reported = false;;) {
    if (const int signal = context.stop.load(); signal != 0 && !std::exchange(reported, true)) ::kill(child, signal);
    const ssize_t n = ::read(from, block, sizeof block);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) break;
    ended.document.append(block, static_cast<size_t>(n));
  }
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR)
    if (const int signal = context.stop.load()) ::kill(child, signal);
  if (WIFEXITED(status)) {
    ended.exit = WEXITSTATUS(status);
    return ended;
  }
  ended.exit = report_error(context, make_problem(ProblemId::internal, {.path = value}, strsignal(WTERMSIG(status))));
  return ended;
}

// `is_told`: what it has found out is wanted, whether or not a document is.
Ended run_one_apart(Option& argument, const std::string& value, Context& context, bool is_told, const std::function<int()>& run_one) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) fail(ProblemId::memory_out, {}, posix::reason_of(errno));
  const pid_t child = ::fork();
  if (child < 0) fail(ProblemId::memory_out, {}, posix::reason_of(errno));
  const bool has_document = context.common.json || !context.common.report.empty() || is_told;
  if (child == 0) {
    ::close(ends[0]);
    if (!has_document) ::close(ends[1]);
    be_one(argument, value, context, has_document ? ends[1] : -1, run_one);
  }
  ::close(ends[1]);
  Ended ended = wait_for(child, ends[0], value, context);
  ::close(ends[0]);
  return ended;
}

std::string joined_documents(const Command& command, const std::vector<std::string>& values, const std::vector<Ended>& all, int exit) {
  std::string text = R"({"schema":"dcpctl.)" + command.name() + R"(.each/1","exit":)" + std::to_string(exit) + R"(,"checkpoints":[)";
  for (size_t i = 0; i < all.size(); ++i) {
    std::string document = all[i].document;
    if (document.empty())  // it ended before it could say anything
      document = json_document([&](JsonWriter& json) { json.member("path", values[i]).member("exit", all[i].exit); });
    while (document.ends_with('\n')) document.pop_back();
    text.append(i > 0 ? "," : "").append(document);
  }
  return text + "]}\n";
}

}  // namespace

Option* several(Command& command) {
  for (Option& a : command.arguments)
    if (a.each && a.count() > 0) return (command.expand && command.expand()) || a.count() > 1 ? &a : nullptr;
  return nullptr;
}

int run_each(const Command& command, Option& argument, Context& context, const std::function<int()>& run_one) {
  const std::vector<std::string> values = argument.given;
  for (const std::string& v : values)
    if (const auto fault = report_fault(context, v, "")) return report_error(context, *fault);
  for (const Option* o : command.given)  // each would replace what the one before has written
    if (o->access == Access::kWrite && o->name() != "--report")
      fail(ProblemId::usage, {}, o->name() + " with several " + argument.value, "one");
  if (is_one_of_several()) fail(ProblemId::usage, {}, "several " + argument.value + " under a launcher of ranks", "one");
  std::vector<Problem> missing;  // told before the first answer, which would push them off the screen
  for (const std::string& v : values)
    if (!context.common.json && (argument.source || argument.access == Access::kRun) && !context.store.facts(v))
      missing.push_back(make_problem(ProblemId::no_such_path, {.path = v}));
  for (size_t i = 0; i + 1 < missing.size(); ++i) report_error(context, missing[i]);
  if (!missing.empty()) fail(ProblemId::no_such_path, missing.back().place);
  context.several = true;
  std::vector<Ended> all;
  std::vector<std::string> documents;
  int exit = 0;
  for (const std::string& v : values) {
    context.check_stop();
    context.is_later = std::ranges::any_of(all, &Ended::answered);
    context.apart = context.is_later && !context.common.json && !context.common.quiet;
    all.push_back(run_one_apart(argument, v, context, command.tally != nullptr, run_one));
    documents.push_back(all.back().document);
    exit = std::max(exit, all.back().exit);
  }
  const bool is_answer = exit != static_cast<int>(Exit::kUsage);  // else the command line was wrong, and nothing was looked at
  const std::string tally = command.tally && is_answer ? command.tally(documents, exit) : "";
  if (!context.common.json && !context.common.quiet) context.print(fitted(context, tally, STDOUT_FILENO));
  const std::string document = joined_documents(command, values, all, exit);
  if (context.common.json) context.print(document);
  save_report(context, document);
  return exit;
}

}  // namespace dcp::cmd
