// The command line as a whole: every command is named here once.
#include "line/program.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <exception>
#include <new>
#include <optional>

#include "line/commands.h"
#include "line/each.h"
#include "line/exit_status.h"
#include "line/help_text.h"
#include "line/lines.h"
#include "line/network.h"
#include "line/pager.h"
#include "line/sandbox.h"
#include "line/text_file.h"
#include "line/usage.h"
#include "net/known_stores.h"

namespace dcp::cmd {
namespace {

constexpr const char* kAbout =
    R"(Works on the folders that torch.distributed.checkpoint writes, without Python, without the trainer's code and without executing
what is in them. The answer goes to standard output, everything else to standard error. An output appears whole or not at all.
What is read may lie in a store: s3://BUCKET/KEY, gs://BUCKET/KEY, hf://ORG/NAME[@REVISION][/PATH] or https://HOST/PATH.

  dcpctl inspect step-1000
  dcpctl list run --latest-full
  dcpctl verify step-1000
  dcpctl consolidate step-1000 model.safetensors --model-only
  dcpctl help consolidate)";

StopFlag g_stop{0};  // a signal handler can reach nothing but globals

// The first signal lets workers finish their unit and clean up; another one ends the program at once. What comes within a second is the same
// order: timeout(1) and batch systems tell the process, and then its group.
extern "C" void on_signal(int number) {
  static std::atomic<int64_t> first_ns = 0;
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  const int64_t now_ns = now.tv_sec * 1'000'000'000 + now.tv_nsec;
  int64_t before_ns = 0;
  if (first_ns.compare_exchange_strong(before_ns, now_ns)) g_stop = number;
  else if (now_ns - before_ns >= 1'000'000'000) std::_Exit(128 + number);
}

// A pager reads ^C, too: without us it would fight the shell for the terminal.
extern "C" void on_signal_while_paged(int number) { g_stop = number; }

void catch_signal(int number, void (*handler)(int)) {
  struct sigaction action{};
  action.sa_handler = handler;
  sigaction(number, &action, nullptr);
}

void catch_signals() {
  for (const int number : {SIGINT, SIGTERM}) catch_signal(number, on_signal);
  if (std::signal(SIGHUP, SIG_IGN) != SIG_IGN) catch_signal(SIGHUP, on_signal);  // nohup ignores it
  std::signal(SIGPIPE, SIG_IGN);                                                 // a closed stdout is an error from write(2)
  std::signal(SIGXFSZ, SIG_IGN);  // and so is a file over the limit of ulimit -f: what is half-written gets removed
}

// Not even memory for the message.
int say_out_of_memory() {
  constexpr char kText[] = "dcpctl: out of memory\n";
  (void)!::write(STDERR_FILENO, kText, sizeof kText - 1);
  return static_cast<int>(Exit::kMachine);
}

[[noreturn]] void end_at_once(const char* why) {
  std::fprintf(stderr, "dcpctl: internal error (got %s)\n", why);
  std::_Exit(static_cast<int>(Exit::kMachine));
}

// LibTorch's threads do not expect that memory or threads may lack, nor that a store answers late. What a rank has half-written then stays, as
// after SIGKILL, for the next run to remove. Of a run that is ending by an error, nothing more is said.
[[noreturn]] void on_terminate() {
  if (const int code = g_reported_exit) std::_Exit(code);
  try {
    if (const std::exception_ptr error = std::current_exception()) std::rethrow_exception(error);
  } catch (const std::bad_alloc&) {
    std::_Exit(say_out_of_memory());
  } catch (const std::exception& error) {
    end_at_once(error.what());
  } catch (...) {
  }
  end_at_once("a thread could not continue: memory or threads may have run out");
}

int run_command(Command& command, Context& context) {
  try {
    if (command.before_rights) command.before_rights();
    for (const Option& a : command.arguments)
      if (a.source && !a.given.empty()) context.sources.push_back(a.given.front());
    check_outputs_of(command, context);
    bound_network(command, context);
    enter_sandbox_of(command, context);
    const int code = command.run();
    tell_network(context);
    return code;
  } catch (const std::exception& error) {
    tell_network(context);
    return report_error(context, error);
  }
}

int run_words(Store& store, Io& io, const std::vector<std::string>& words, const Network& network) {
  Context context(store, io, g_stop);
  context.network = network.settings;
  context.http = network.http;
  context.words = words;
  CommandLine line;
  try {
    line = read_command_line(words, context);
  } catch (const Error& wrong) {
    context.common.json = std::ranges::find(words, "--json") != words.end();
    save_usage_report(context, words, wrong.problem());
    return report_error(context, wrong.problem());
  }
  try {
    const auto has = [&](const char* option) { return std::ranges::find(words, option) != words.end(); };
    context.common.no_pager |= has("--no-pager");  // before --help and --version nothing has read them
    if (line.requested == Action::kVersion) return context.common.json |= has("--json"), print_version(context);
    std::optional<Pager> pager;  // outside the sandbox
    if (line.requested == Action::kHelp || (line.requested == Action::kRun && line.command->pages)) pager.emplace(context);
    if (context.paged_columns > 0) catch_signal(SIGINT, on_signal_while_paged);
    if (line.requested == Action::kHelp) return context.print(help_text(*line.command, help_form(context))), 0;
    if (line.names_nothing) {
      write_fd(STDERR_FILENO, short_help_text(*line.command, help_form(context, STDERR_FILENO)));
      return static_cast<int>(Exit::kUsage);
    }
    if (line.requested == Action::kShortHelp) return context.print(short_help_text(*line.command, help_form(context))), 0;
    context.command = short_path(*line.command);
    const auto run = [&] { return run_command(*line.command, context); };
    Option* const argument = several(*line.command);
    return argument == nullptr ? run() : run_each(*line.command, *argument, context, run);
  } catch (const std::exception& error) {
    return report_error(context, error);
  }
}

}  // namespace

void add_program(Command& c, Context& context) {
  c.details = kAbout;
  c.ask("-V,--version", Action::kVersion, "Print version, commit and modules");
  const size_t own = c.options.size();
  add_common(c, context.common, true);
  add_sandbox(c, context);
  for (size_t i = own; i < c.options.size(); ++i) c.options[i].in("Before a command, too");
}

int run_program(Io& io, int argc, char** argv, std::optional<NamedStores> named) {
  catch_signals();
  std::set_terminate(on_terminate);
  try {
    const Network network = make_network(g_stop);
    Stores stores(io, named ? std::move(*named) : net::known_stores(network.http));
    return run_words(stores, io, {argv + 1, argv + argc}, network);
  } catch (const std::exception&) {
    return say_out_of_memory();
  }
}

}  // namespace dcp::cmd
