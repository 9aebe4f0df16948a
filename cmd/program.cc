// The command line as a whole: every command is named here once.
#include "program.h"

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <new>
#include <sstream>

#include "commands.h"
#include "help.h"
#include "sandbox.h"
#include "usage.h"
#include "write_report.h"

namespace dcp::cmd {
namespace {

constexpr const char* kAbout =
    R"(Works on the folders that torch.distributed.checkpoint writes, without Python, without the trainer's code and without executing
what is in them. The answer goes to standard output, everything else to standard error. An output appears whole or not at all.

  dcpctl inspect step-1000
  dcpctl verify step-1000
  dcpctl consolidate step-1000 model.safetensors --model-only
  dcpctl help consolidate)";

StopFlag g_stop{0};  // the one global: a signal handler can reach nothing else

// The first signal lets workers finish their unit and clean up; a second one ends the program at once.
extern "C" void on_signal(int number) {
  if (g_stop.exchange(number) != 0) std::_Exit(128 + number);
}

void catch_signals() {
  struct sigaction action{};
  action.sa_handler = on_signal;
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
  sigaction(SIGHUP, &action, nullptr);
  std::signal(SIGPIPE, SIG_IGN);  // a closed stdout is an error from write(2)
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

// CLI11 allocates in functions that it has marked noexcept, and LibTorch's threads do not expect that memory or threads may lack. What a
// rank has half-written then stays, as after SIGKILL, for the next run to remove.
[[noreturn]] void on_terminate() {
  try {
    if (const std::exception_ptr error = std::current_exception()) std::rethrow_exception(error);
  } catch (const std::bad_alloc&) {
    std::_Exit(say_out_of_memory());
  } catch (const std::exception& error) {
    end_at_once(error.what());
  } catch (...) {
  }
  end_at_once("a thread that could not go on: memory or threads may lack");
}

// What a script gives whose variable is not set.
void refuse_empty_values(const CLI::App& app) {
  for (const CLI::App* command : app.get_subcommands()) {
    for (const CLI::Option* option : command->get_options())
      if (std::ranges::find(option->results(), "") != option->results().end())
        fail(ProblemId::usage, {}, option->get_name() + " ''", "a value");
    refuse_empty_values(*command);
  }
}

// A repeatable option takes one value each time, as it is: CLI11 would take the words after it too, CKPT among them, and a value in
// brackets, such as the glob [ab], for a list.
void take_one_value_each(CLI::App& app) {
  for (CLI::App* command : app.get_subcommands({})) {
    for (CLI::Option* option : command->get_options())
      if (option->nonpositional() && option->get_items_expected_max() == 1) option->allow_extra_args(false);
    take_one_value_each(*command);
  }
}

int run_commands(Io& io, int argc, char** argv) {
  Context context{.io = io, .stop = g_stop};
  CLI::App app{"Toolkit for PyTorch Distributed Checkpoints: inspects, verifies and consolidates them, without Python", "dcpctl"};
  app.set_version_flag("--version", "dcpctl " DCPCTL_VERSION, "Print the version");
  app.require_subcommand(1);
  app.footer(kAbout);
  app.formatter_fn([](const CLI::App* command, const std::string&, CLI::AppFormatMode) { return help_text(command_tree(*command)); });
  add_inspect(app, context);
  add_verify(app, context);
  add_consolidate(app, context);
  add_reshard(app, context);
  add_cast(app, context);
  add_convert(app, context);
  add_ranks_command(app, context);
  add_bench(app, context);
  add_help(app, context);
  add_man(app, context);
  add_completions(app, context);
  take_one_value_each(app);
  const std::vector<std::string> words(argv + 1, argv + argc);
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& done) {  // --help, --version
    std::ostringstream text;
    app.exit(done, text);
    try {
      context.out(text.str());
      return 0;
    } catch (const std::exception& error) {
      return report_error(context, error);
    }
  } catch (const CLI::ParseError& error) {
    context.common.json = std::ranges::find(words, "--json") != words.end();
    const Problem problem = usage_problem(app, words, error);
    save_usage_report(context, words, problem);
    return report_error(context, problem);
  }
  try {
    refuse_empty_values(app);
    enter_sandbox_of(app, context);
    return context.run();
  } catch (const std::exception& error) {
    return report_error(context, error);
  }
}

}  // namespace

int run_program(Io& io, int argc, char** argv) {
  catch_signals();
  std::set_terminate(on_terminate);
  try {
    return run_commands(io, argc, argv);
  } catch (const std::exception&) {
    return say_out_of_memory();
  }
}

}  // namespace dcp::cmd
