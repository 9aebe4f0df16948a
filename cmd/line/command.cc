#include "line/command.h"

#include <algorithm>

#include "base/text.h"
#include "line/commands.h"

namespace dcp::cmd {

namespace {

constexpr CommandName kCommands[] = {
#define DCPCTL_COMMAND(path, function, question, about) {path, question, about, add_##function},
#define DCPCTL_GROUP(path, question, about) {path, question, about, nullptr},
#define DCPCTL_ALIAS(name, path, is_told)
#include "line/commands.def"
#undef DCPCTL_COMMAND
#undef DCPCTL_GROUP
#undef DCPCTL_ALIAS
};

constexpr CommandAlias kAliases[] = {
#define DCPCTL_COMMAND(path, function, question, about)
#define DCPCTL_GROUP(path, question, about)
#define DCPCTL_ALIAS(name, path, is_told) {name, path, is_told},
#include "line/commands.def"
#undef DCPCTL_COMMAND
#undef DCPCTL_GROUP
#undef DCPCTL_ALIAS
};

std::string_view parent_of(std::string_view path) {
  const size_t space = path.rfind(' ');
  return path.substr(0, space == std::string_view::npos ? 0 : space);
}

}  // namespace

std::span<const CommandName> command_names() { return kCommands; }
std::span<const CommandAlias> command_aliases() { return kAliases; }

std::vector<const CommandName*> commands_under(const Command& command) {
  std::vector<const CommandName*> under;
  const std::string path = short_path(command);
  for (const CommandName& c : kCommands)
    if (!c.path.empty() && parent_of(c.path) == path) under.push_back(&c);
  return under;
}

const CommandName* command_named(const Command& parent, std::string_view word) {
  if (short_path(parent).empty())
    for (const CommandAlias& a : kAliases)
      if (a.name == word) word = a.path;
  for (const CommandName* c : commands_under(parent))
    if (c->name() == word) return c;
  return nullptr;
}

std::unique_ptr<Command> build_command(std::string_view path, Context& context) {
  const CommandName& name = *std::ranges::find(kCommands, path, &CommandName::path);
  auto command = std::make_unique<Command>();
  command->path = {"dcpctl"};
  for (const std::string_view word : split(path, ' '))
    if (!word.empty()) command->path.emplace_back(word);
  command->about = name.about;
  if (name.add != nullptr) name.add(*command, context);
  command->ask("-h", Action::kShortHelp, "Print the options by name, and examples");
  command->ask("--help", Action::kHelp, "Print this help");
  return command;
}

std::string short_path(const Command& command) { return joined(std::span(command.path).subspan(1), " "); }

std::vector<std::string> Option::all_names() const {
  std::vector<std::string> all = names;
  all.insert(all.end(), others.begin(), others.end());
  return all;
}

Option* Command::find(std::string_view option) {
  for (Option& o : options)
    if (std::ranges::find(o.names, option) != o.names.end() || std::ranges::find(o.others, option) != o.others.end()) return &o;
  return nullptr;
}

Option& Command::add(std::string_view names, std::string_view value, std::string help) {
  Option& o = options.emplace_back();
  for (const std::string_view name : split(names, ','))
    if (!name.empty()) o.names.emplace_back(name);  // an argument has none
  o.value = value;
  o.help = std::move(help);
  return o;
}

Option& Command::option(std::string_view names, std::function<bool(const std::string&)> take, std::string_view value, std::string help) {
  Option& o = add(names, value, std::move(help));
  o.take = std::move(take);
  return o;
}

Option& Command::option(std::string_view names, std::string& target, std::string_view value, std::string help) {
  return option(names, [&target](const std::string& text) { return target = text, true; }, value, std::move(help));
}

Option& Command::option(std::string_view names, std::vector<std::string>& target, std::string_view value, std::string help) {
  Option& o = option(names, [&target](const std::string& text) { return target.push_back(text), true; }, value, std::move(help));
  o.repeatable = true;
  return o;
}

Option& Command::flag(std::string_view names, bool& target, std::string help) {
  return option(names, [&target](const std::string&) { return target = true; }, "", std::move(help));
}

Option& Command::flag(std::string_view names, int& count, std::string help) {
  Option& o = option(names, [&count](const std::string&) { return ++count, true; }, "", std::move(help));
  o.repeatable = true;
  return o;
}

Option& Command::ask(std::string_view names, Action what, std::string help) {
  Option& o = add(names, "", std::move(help));
  o.action = what;
  return o;
}

Option& Command::argument(std::string_view name, std::string& target, std::string help) {
  Option& o = arguments.emplace_back();
  o.value = name;
  o.help = std::move(help);
  o.take = [&target](const std::string& text) { return target = text, true; };
  return o;
}

Option& Command::argument(std::string_view name, std::vector<std::string>& target, std::string help) {
  Option& o = arguments.emplace_back();
  o.value = name;
  o.help = std::move(help);
  o.take = [&target](const std::string& text) { return target.push_back(text), true; };
  o.repeatable = true;
  return o;
}

}  // namespace dcp::cmd
