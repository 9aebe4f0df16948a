// dcpctl help: the text of --help, and the whole command line as one JSON document.
#include "base/json.h"
#include "line/command_text.h"
#include "line/commands.h"
#include "line/exit_status.h"
#include "line/help_text.h"
#include "line/usage.h"

namespace dcp::cmd {
namespace {

constexpr const char* kText = R"(Prints what --help prints. With --json: all commands, their options, and the exit codes, for programs.

  dcpctl help consolidate
  dcpctl help bench io
  dcpctl help --json | jq -r '.command.commands[].name')";

void options_json(JsonWriter& json, const char* key, const std::deque<Option>& options) {
  json.key(key).begin_array();
  for (const Option& o : options) {
    json.begin_object();
    if (!o.names.empty()) {
      json.key("names").begin_array();
      for (const std::string& n : o.names) json.value(n);
      json.end_array().member("group", o.group);
    }
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
  JsonWriter json([&](std::string_view text) { context.print(text); });
  json.begin_object().member("schema", "dcpctl.help/1").member("version", DCPCTL_VERSION).key("command");
  command_json(json, command, context);
  json.key("exit_codes").begin_array();
  for (const ExitStatus& s : kExitStatuses)
    json.begin_object().member("code", static_cast<int>(s.code)).member("meaning", s.meaning).end_object();
  json.end_array().end_object();
  json.finish();
  return 0;
}

}  // namespace

void add_help(Command& c, Context& context) {
  auto words = std::make_shared<std::vector<std::string>>();
  c.details = kText;
  c.argument("COMMAND", *words, "Command, such as inspect or bench io").offers(Offer::kCommands);
  c.flag("--json", context.common.json, "Print one JSON document on stdout");
  c.flag("--no-pager", context.common.no_pager, "No pager ($DCPCTL_PAGER, $PAGER or less) at a terminal");
  c.pages = true;
  c.run = [words, &context] {
    const std::unique_ptr<Command> wanted = command_of_words(*words, context);
    if (context.common.json) return print_json(*wanted, context);
    context.print(help_text(*wanted, help_form(context)));
    return 0;
  };
}

}  // namespace dcp::cmd
