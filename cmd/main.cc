// dcpctl: options in, exit code out. The work is in src/, one command a file beside this.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <csignal>

#include "commands.h"

namespace dcp::cmd {
namespace {

StopFlag g_stop{0};  // the one global: a signal handler can reach nothing else

// The first signal lets workers finish their unit and clean up; a second one ends the program at once.
extern "C" void on_signal(int number) {
  if (g_stop.exchange(number) != 0) std::_Exit(128 + number);
}

void catch_signals() {
  struct sigaction action {};
  action.sa_handler = on_signal;
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
  sigaction(SIGHUP, &action, nullptr);
  std::signal(SIGPIPE, SIG_IGN);  // a closed stdout is an error from write(2)
}

size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j)
      diagonal = std::exchange(row[j], std::min({row[j] + 1, row[j - 1] + 1, diagonal + (a[i - 1] != b[j - 1])}));
  }
  return row[b.size()];
}

std::string closest(const std::string& word, const std::vector<std::string>& names) {
  std::string best;
  size_t least = std::max<size_t>(2, word.size() / 3) + 1;
  for (const std::string& n : names)
    if (const size_t d = edit_distance(word, n); d < least) least = d, best = n;
  return best;
}

// The command that was being given when parsing failed: the deepest one that was recognised.
const CLI::App* deepest(const CLI::App* app) {
  while (!app->get_subcommands().empty()) app = app->get_subcommands().back();
  return app;
}

Problem usage_problem(const CLI::App& app, const std::vector<std::string>& words, const CLI::ParseError& error) {
  const CLI::App* command = deepest(&app);
  Problem p = make_problem(ProblemId::usage, {});
  p.what = error.what();
  if (const auto line = p.what.find('\n'); line != std::string::npos) p.what.resize(line);
  std::vector<std::string> names;
  for (const CLI::Option* o : command->get_options())
    for (const std::string& n : o->get_lnames()) names.push_back("--" + n);
  if (command == &app)
    for (const CLI::App* s : app.get_subcommands({})) names.push_back(s->get_name());
  std::string hint;
  for (const std::string& w : words) {
    const std::string bare = w.substr(0, w.find('='));
    if (p.what.find(bare) == std::string::npos || std::ranges::find(names, bare) != names.end()) continue;
    if (const std::string n = closest(bare, names); !n.empty()) hint = "did you mean " + n + "?";
  }
  p.hint = hint.empty() ? "see 'dcpctl" + (command == &app ? "" : " " + command->get_name()) + " --help'" : hint;
  return p;
}

int run(int argc, char** argv) {
  const auto io = make_posix_io();
  Context context{.io = *io, .stop = g_stop};
  CLI::App app{"The toolkit for PyTorch Distributed Checkpoints: inspect and consolidate without Python, the trainer's code or the model's size in memory.", "dcpctl"};
  app.set_version_flag("--version", "dcpctl " DCPCTL_VERSION, "Print the version");
  app.require_subcommand(1);
  app.footer("Exit codes: 0 done; 1 the answer is no; 2 wrong command line, or the output exists; 3 the input is no checkpoint, damaged or\n"
             "unsupported; 4 the machine failed; 5 this build lacks it; 6 another rank failed; 130, 143 interrupted.");
  app.get_formatter()->column_width(34);
  add_inspect(app, context);
  add_consolidate(app, context);
  add_bench(app, context);
  const std::vector<std::string> words(argv + 1, argv + argc);
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& done) {  // --help, --version
    return app.exit(done);
  } catch (const CLI::ParseError& error) {
    context.common.json = std::ranges::find(words, "--json") != words.end();
    return report_error(context, usage_problem(app, words, error));
  }
  try {
    return context.run();
  } catch (const std::exception& error) {
    return report_error(context, error);
  }
}

}  // namespace
}  // namespace dcp::cmd

int main(int argc, char** argv) {
  dcp::cmd::catch_signals();
  return dcp::cmd::run(argc, argv);
}
