#include "command_tree.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <iterator>

#include "base/problem.h"
#include "usage.h"

namespace dcp::cmd {
namespace {

// Value names that stand for something in the file system; every other free value is text that a shell cannot guess.
constexpr std::string_view kFileNames[] = {"A", "B", "CKPT", "CKPT2", "FILE", "OUT", "REF", "SRC"};
constexpr std::string_view kFolderNames[] = {"DIR", "RUN"};

ValueKind kind_of(const OptionText& o) {
  const auto among = [&](const auto& names) { return std::ranges::find(names, o.value) != std::end(names); };
  if (o.value.empty()) return ValueKind::kNone;
  if (!o.choices.empty()) return ValueKind::kChoice;
  if (o.value == "COMMAND") return ValueKind::kCommand;
  return among(kFileNames) ? ValueKind::kFile : among(kFolderNames) ? ValueKind::kFolder : ValueKind::kText;
}

// A closed list shows only in the description of its validator: "{a,b}" (IsMember) or "value in {a->0,b->1} OR {0,1}" (CheckedTransformer).
std::vector<std::string> choices_of(const CLI::Option& option) {
  const std::string text = option.get_type_name();
  const size_t open = text.find('{'), close = text.find('}', open);
  std::vector<std::string> choices;
  if (open == std::string::npos || close == std::string::npos) return choices;
  for (size_t at = open + 1; at < close;) {
    const size_t end = std::min(text.find(',', at), close);
    const std::string entry = text.substr(at, end - at);
    choices.push_back(entry.substr(0, entry.find("->")));
    at = end + 1;
  }
  return choices;
}

OptionText option_text(const CLI::Option& option) {
  OptionText o{.help = option.get_description(), .group = option.get_group(), .required = option.get_required()};
  for (const std::string& n : option.get_snames()) o.names.push_back("-" + n);
  for (const std::string& n : option.get_lnames()) o.names.push_back("--" + n);
  const bool valued = option.get_items_expected_max() != 0;
  if (valued) o.value = option.get_option_text();
  if (valued && o.value.empty()) o.value = o.names.empty() ? option.get_name(true) : "value";  // the tests ask for a name in capitals
  if (valued) o.choices = choices_of(option);
  using Policy = CLI::MultiOptionPolicy;
  const Policy policy = option.get_multi_option_policy();
  o.repeatable = policy != Policy::Throw && policy != Policy::TakeLast && policy != Policy::TakeFirst;
  if (option.get_positional()) o.repeatable = option.get_items_expected_max() > 1;
  o.kind = kind_of(o);
  o.access = access_of(option);
  return o;
}

bool is_hidden(const CLI::Option& option) { return option.get_group().empty(); }

}  // namespace

CommandText command_tree(const CLI::App& app) {
  CommandText c{.about = app.get_description(), .details = app.get_footer()};
  // CLI11 hands a footer down to commands that have none of their own.
  if (app.get_parent() != nullptr && app.get_parent()->get_footer() == c.details) c.details.clear();
  for (const CLI::App* at = &app; at != nullptr; at = at->get_parent()) c.path.insert(c.path.begin(), at->get_name());
  for (const CLI::Option* o : app.get_options()) {
    if (is_hidden(*o) || o == app.get_help_ptr()) continue;
    (o->get_positional() ? c.positionals : c.options).push_back(option_text(*o));
  }
  // Registered first by CLI11 and wanted least.
  if (const CLI::Option* help = app.get_help_ptr()) {
    c.options.push_back(option_text(*help));
    c.options.back().help = "Print this help";
  }
  for (const CLI::App* s : app.get_subcommands([](const CLI::App* sub) { return !sub->get_group().empty(); }))
    c.commands.push_back(command_tree(*s));
  return c;
}

const CommandText& find_command(const CommandText& root, const std::vector<std::string>& words) {
  const CommandText* at = &root;
  for (const std::string& w : words) {
    const auto next = std::ranges::find(at->commands, w, &CommandText::name);
    if (next == at->commands.end()) throw Error(unknown_command(*at, w));
    at = &*next;
  }
  return *at;
}

std::vector<const CommandText*> all_commands(const CommandText& root) {
  std::vector<const CommandText*> all{&root};
  for (const CommandText& c : root.commands) std::ranges::copy(all_commands(c), std::back_inserter(all));
  return all;
}

std::vector<std::string> groups_of(const CommandText& command) {
  std::vector<std::string> groups;
  for (const OptionText& o : command.options)
    if (std::ranges::find(groups, o.group) == groups.end()) groups.push_back(o.group);
  return groups;
}

std::string joined(const std::vector<std::string>& words, std::string_view between) {
  std::string text;
  for (const std::string& w : words) text.append(text.empty() ? "" : between).append(w);
  return text;
}

std::string usage_line(const CommandText& command) {
  std::string line = joined(command.path, " ") + " [OPTION]...";
  for (const OptionText& p : command.positionals) {
    const std::string name = p.repeatable ? p.value + "..." : p.value;
    line += p.required ? " " + name : " [" + name + "]";
  }
  return command.commands.empty() ? line : line + " COMMAND";
}

std::vector<TextBlock> blocks_of(std::string_view details) {
  std::vector<TextBlock> blocks;
  for (bool open = false; !details.empty();) {
    const size_t end = std::min(details.find('\n'), details.size());
    const std::string_view line = details.substr(0, end);
    details.remove_prefix(std::min(end + 1, details.size()));
    const size_t indent = line.find_first_not_of(' ');
    if (indent == std::string_view::npos) {
      open = false;
      continue;
    }
    if (!open) blocks.push_back({.kind = indent == 0 ? TextBlock::Kind::kProse : TextBlock::Kind::kTable, .lines = {}});
    open = true;
    const bool command = line.find("dcpctl ") != std::string_view::npos;
    if (command && blocks.back().kind == TextBlock::Kind::kTable) blocks.back().kind = TextBlock::Kind::kExample;
    blocks.back().lines.emplace_back(line.substr(indent));
  }
  return blocks;
}

}  // namespace dcp::cmd
