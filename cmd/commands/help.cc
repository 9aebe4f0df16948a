// dcpctl help: the text of --help, and the whole command line as one JSON document.
#include <unistd.h>

#include <algorithm>
#include <iterator>

#include "base/json.h"
#include "base/text.h"
#include "line/commands.h"
#include "line/exit_status.h"
#include "line/help_text.h"
#include "line/lines.h"
#include "line/problem_words.h"
#include "line/usage.h"

namespace dcp::cmd {
namespace {

constexpr const char* kText = R"(Prints what --help prints. With --json: all commands, their options, and the exit codes, for programs.
Of the id of an error, which --json prints, it says what the error means and what helps.

  dcpctl help consolidate
  dcpctl help bench io
  dcpctl help item_past_end
  dcpctl help --json | jq -r '.command.commands[].name')";

void options_json(JsonWriter& json, const char* key, const std::deque<Option>& options) {
  json.key(key).begin_array();
  for (const Option& o : options) {
    json.begin_object();
    if (!o.names.empty()) json.member("names", o.names).member("group", o.group);
    if (!o.value.empty()) json.member("value", o.value);
    if (o.access == Access::kRead || o.access == Access::kRun) json.member("path", "read");
    if (o.access == Access::kWrite) json.member("path", "write");
    if (o.access == Access::kChange) json.member("path", "change");
    if (!o.choices.empty()) {
      json.member("choices", o.choices);
    }
    constexpr std::string_view kOffers[] = {"", "files", "folders", "commands", "keys", "steps", "dtypes", "dtype-rules", "maps"};
    if (o.offer != Offer::kNothing) json.member("offers", kOffers[static_cast<size_t>(o.offer)]);
    if (!o.needed.empty()) json.member("needs", o.needed);
    if (!o.excluded.empty()) json.member("excludes", o.excluded);
    json.member("help", o.help).member("required", o.required).member("repeatable", o.repeatable).end_object();
  }
  json.end_array();
}

void command_json(JsonWriter& json, const Command& c, Context& context) {
  json.begin_object().member("name", c.name()).member("about", c.about).member("usage", usage_line(c)).member("details", c.details);
  options_json(json, "positionals", c.arguments);
  options_json(json, "options", c.options);
  json.key("commands").begin_array();
  for (const CommandName* sub : commands_under(c)) command_json(json, *build_command(sub->path, context), context);
  json.end_array().end_object();
}

int print_json(const Command& command, Context& context) {
  context.print(json_document([&](JsonWriter& json) {
    command_json(json.member("schema", "dcpctl.help/1").member("version", DCPCTL_VERSION).key("command"), command, context);
    json.key("exit_codes").begin_array();
    for (const ExitStatus& s : kExitStatuses)
      json.begin_object().member("code", static_cast<int>(s.code)).member("meaning", s.meaning).end_object();
    json.end_array();
  }));
  return 0;
}

constexpr ProblemId kProblems[] = {
#define DCP_PROBLEM(id, class_, what, hint) ProblemId::id,
#include "base/problems.def"
#undef DCP_PROBLEM
};

// What can go wrong, by its id, as --json has it, or by its words. nullptr: there is no such problem.
const ProblemId* problem_named(const std::string& text) {
  const auto found = std::ranges::find_if(kProblems, [&](ProblemId id) { return id_name(id) == text || text_of(id) == text; });
  return found == std::end(kProblems) ? nullptr : found;
}

Problem no_such_error(const std::string& said) {
  Problem p = make_problem(ProblemId::usage, {});
  p.what = "no error has the id '" + escaped(said) + "'";
  p.hint = "--json prints the id of an error, such as not_checkpoint; what an error says, such as 'is not a checkpoint', will do, too";
  return p;
}

int explain(ProblemId id, Context& context) {
  Problem raw = make_problem(id, {});
  raw.names = {"NAME"};  // in hints that name something
  Problem p = worded(std::move(raw));
  if (p.hint.empty() && class_of(id) == ProblemClass::kInput)
    p.hint = "'dcpctl verify CKPT' says what else is wrong and what is whole, 'dcpctl list RUN' which step is complete";
  const ExitStatus& exit = *std::ranges::find(kExitStatuses, exit_of(p), &ExitStatus::code);
  if (context.common.json) {
    context.print(json_document([&](JsonWriter& json) {
      json.member("schema", "dcpctl.help/1").member("version", DCPCTL_VERSION).key("problem").begin_object();
      json.member("id", id_name(id)).member("message", p.what).member("exit", static_cast<int>(exit.code));
      if (!p.hint.empty()) json.member("hint", p.hint);
      json.end_object();
    }));
    return 0;
  }
  std::string text = std::string(id_name(id)) + ": " + p.what + "\n";
  text += "  exit code " + std::to_string(static_cast<int>(exit.code)) + ": " + std::string(exit.meaning) + "\n";
  if (exit.code == Exit::kInput) text += "  exit code 1 where it is one of the findings of inspect or verify\n";
  if (!p.hint.empty()) text += "  what helps: " + p.hint + "\n";
  return context.print(fitted(context, text, STDOUT_FILENO)), 0;
}

}  // namespace

void add_help(Command& c, Context& context) {
  auto words = std::make_shared<std::vector<std::string>>();
  c.details = kText;
  c.argument("COMMAND", *words,
             "Command, such as inspect or bench io; or the id of an error, as --json prints it: what it means, and what helps")
      .offers(Offer::kCommands);
  c.flag("--json", context.common.json, "Print one JSON document on stdout");
  c.flag("--no-pager", context.common.no_pager, "No pager ($DCPCTL_PAGER, $PAGER or less) at a terminal");
  c.pages = true;
  c.run = [words, &context] {
    const std::string said = joined(*words, " ");
    if (const ProblemId* id = problem_named(said); id != nullptr) return explain(*id, context);
    for (const ExitStatus& s : kExitStatuses)
      if (std::to_string(static_cast<int>(s.code)) == said)
        return context.print("exit code " + said + ": " + std::string(s.meaning) + "\n"), 0;
    if (context.words.front() == "explain" && !words->empty()) throw Error(no_such_error(said));
    const std::unique_ptr<Command> wanted = command_of_words(*words, context);
    if (context.common.json) return print_json(*wanted, context);
    context.print(help_text(*wanted, help_form(context)));
    return 0;
  };
}

}  // namespace dcp::cmd
