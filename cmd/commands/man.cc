// dcpctl man: the manual page of a command.
#include <unistd.h>

#include "line/commands.h"
#include "line/help_text.h"
#include "line/lines.h"
#include "line/pager.h"
#include "line/usage.h"

namespace dcp::cmd {
namespace {

constexpr const char* kText =
    R"(Shows a manual page with man; if stdout is not a terminal, prints it in roff, as installed under share/man. Without COMMAND: the page
of dcpctl itself.

  dcpctl man consolidate
  dcpctl man bench io > dcpctl-bench-io.1)";

// On a terminal, man formats and pages the page. False: man is not installed.
bool shown_by_man(const std::string& page) {
  Viewer man({"man", "-l", "-"});
  if (man.is_there()) write_fd(man.input(), page);
  return man.close();
}

}  // namespace

void add_man(Command& c, Context& context) {
  auto words = std::make_shared<std::vector<std::string>>();
  c.details = kText;
  c.argument("COMMAND", *words, "Command, such as inspect or bench io").offers(Offer::kCommands);
  c.run = [words, &context] {
    const std::unique_ptr<Command> command = command_of_words(*words, context);
    const std::string page = man_page(*command);
    if (!isatty(STDOUT_FILENO)) return context.print(page), 0;
    if (shown_by_man(page)) return 0;
    const Pager pager(context);  // no man here: --help says the same
    context.print(help_text(*command, help_form(context)));
    return 0;
  };
}

}  // namespace dcp::cmd
