// How a command line is declared. Each option is declared once; the parser, help, manual pages, completions, suggestions and sandbox rights
// all derive from that declaration, so they cannot disagree.
#pragma once

#include <charconv>
#include <cstdint>
#include <deque>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/io.h"
#include "base/text.h"

namespace dcp::cmd {

struct Context;

// What the command does with the given path. kSteps: the checkpoint is a step below CKPT, possibly behind a link. kEverywhere: links may
// lead anywhere. kRun: it reads a folder of checkpoints, possibly behind links. kChange: it changes a folder, and nothing beside it.
enum class Access : uint8_t { kRead, kWrite, kSteps, kEverywhere, kRun, kChange };

// What a shell can complete for a value that is not from a closed list.
enum class Offer : uint8_t { kNothing, kFiles, kFolders, kCommands, kKeys, kSteps, kDtypes, kDtypeRules, kMaps };

// What an option requests instead of running the command.
enum class Action : uint8_t { kRun, kShortHelp, kHelp, kVersion };

template <class T>
struct Range {
  T min, max;  // both belong to it
};

template <class T>
using Choices = std::vector<std::pair<std::string, T>>;

// An option, or an argument (no names). Declared by Command::flag, option, ... and the calls chained to them.
struct Option {
  std::vector<std::string> names;   // "-j", "--threads"
  std::vector<std::string> others;  // further ones, which are taken, and neither listed nor completed
  std::string value;                // "N"; empty for a flag
  std::string help, group = "Options";
  std::vector<std::string> choices;  // of a closed list
  bool list = false;                 // the value may be several choices, separated by commas
  Offer offer = Offer::kNothing;
  std::optional<Access> access;
  std::function<std::string(Store&, const std::string&)> leads_to;  // a further path to read, named in the given file
  bool source = false;                                              // the argument is a checkpoint to be read
  bool required = false, repeatable = false;
  bool may_be_empty = false;  // '' is a valid value: a key may be ''
  std::string alone;          // the value where none is given; "": one must be
  bool each = false;          // the argument may be repeated; the command runs once for each (each.h)
  Action action = Action::kRun;
  std::vector<std::string> needed, excluded;  // other options
  std::string expected;                       // what `take` accepts: "a number from 1 to 9"
  std::function<bool(const std::string&)> take;
  std::vector<std::string> given;  // values on the command line

  Option& also(std::vector<std::string> more) { return others = std::move(more), *this; }
  Option& in(std::string text) { return group = std::move(text), *this; }
  Option& reads(Offer what = Offer::kFiles) { return access = Access::kRead, offer = what, *this; }
  Option& writes(Offer what = Offer::kFiles) { return access = Access::kWrite, offer = what, *this; }
  Option& opens(Access what) { return access = what, *this; }
  Option& offers(Offer what) { return offer = what, *this; }
  Option& one_of(std::vector<std::string> words) { return choices = std::move(words), *this; }
  Option& some_of(std::vector<std::string> words) { return list = true, one_of(std::move(words)); }
  Option& for_each() { return each = repeatable = true, *this; }
  Option& or_empty() { return may_be_empty = true, *this; }
  Option& or_alone(std::string meant) { return alone = std::move(meant), *this; }
  Option& is_source() { return source = true, *this; }
  Option& is_required(bool is = true) { return required = is, *this; }
  Option& needs(std::string other) { return needed.push_back(std::move(other)), *this; }
  Option& excludes(std::string other) { return excluded.push_back(std::move(other)), *this; }

  // With the other ones.
  std::vector<std::string> all_names() const;
  // Its name in messages: "--threads", "CKPT".
  const std::string& name() const { return names.empty() ? value : names.back(); }
  size_t count() const { return given.size(); }
};

struct Command {
  std::vector<std::string> path;  // {"dcpctl", "bench", "io"}
  std::string about;              // one line, without a period
  std::string details;            // paragraphs, indented tables and indented example command lines
  std::deque<Option> options, arguments;
  std::vector<const Option*> given;     // options in command line order
  std::function<void()> before_rights;  // what else the given words stand for; before the process gives up its rights
  std::function<int()> run;
  std::function<bool()> expand;  // puts what the values of an argument stand for in their place; true: they are for each, even one alone
  // What the documents of several say together; may raise the exit code.
  std::function<std::string(const std::vector<std::string>& documents, int& exit)> tally;
  bool pages = false;  // the answer may exceed a screen; some option values turn that off

  const std::string& name() const { return path.back(); }
  Option* find(std::string_view option);

  // Values are stored in `target`; if an option is given twice, the last one wins. Names: "-j,--threads".
  Option& flag(std::string_view names, bool& target, std::string help);
  Option& flag(std::string_view names, int& count, std::string help);
  Option& option(std::string_view names, std::string& target, std::string_view value, std::string help);
  Option& option(std::string_view names, std::function<bool(const std::string&)> take, std::string_view value, std::string help);
  // Repeatable.
  Option& option(std::string_view names, std::vector<std::string>& target, std::string_view value, std::string help);
  Option& ask(std::string_view names, Action what, std::string help);
  template <class T>
  Option& number(std::string_view names, T& target, std::type_identity_t<Range<T>> range, std::string_view value, std::string help);
  template <class T>
  Option& number(std::string_view names, std::optional<T>& target, std::string_view value, std::string help);
  template <class T>
  Option& choice(std::string_view names, T& target, Choices<T> choices, std::string_view value, std::string help);
  Option& argument(std::string_view name, std::string& target, std::string help);
  Option& argument(std::string_view name, std::vector<std::string>& target, std::string help);

 private:
  Option& add(std::string_view names, std::string_view value, std::string help);
};

// A command as its parent knows it. Commands are built on demand.
struct CommandName {
  std::string_view path;            // "bench io"
  std::string_view question;        // that it is for, as help groups commands: "Look"
  std::string_view about;           // one line, without a period
  void (*add)(Command&, Context&);  // declares options and what to run; nullptr: a group

  std::string name() const { return std::string(path.substr(path.rfind(' ') + 1)); }
};
std::span<const CommandName> command_names();  // parents first
std::vector<const CommandName*> commands_under(const Command& command);

// Another name of a command of dcpctl itself.
struct CommandAlias {
  std::string_view name, path;
  bool is_told;  // by its manual page and completion; else it is only taken
};
std::span<const CommandAlias> command_aliases();
// By its name or another one; nullptr: there is none.
const CommandName* command_named(const Command& parent, std::string_view word);

// The command of that path; "" is dcpctl itself. Its options write into the context.
std::unique_ptr<Command> build_command(std::string_view path, Context& context);

// "bench io"; dcpctl itself is "".
std::string short_path(const Command& command);

template <class T>
bool parse_number(const std::string& text, T& target, std::type_identity_t<Range<T>> range) {
  const auto number = decimal<T>(text);
  if (!number || !(*number >= range.min && *number <= range.max)) return false;
  target = *number;
  return true;
}

template <class T>
Option& Command::number(std::string_view names, T& target, std::type_identity_t<Range<T>> range, std::string_view value, std::string help) {
  Option& o =
      option(names, [&target, range](const std::string& text) { return parse_number(text, target, range); }, value, std::move(help));
  const auto spelled = [](T n) {
    char text[32];
    return std::string(text, std::to_chars(text, text + sizeof text, n).ptr);
  };
  o.expected = "a number from " + spelled(range.min) + " to " + spelled(range.max);
  return o;
}

template <class T>
Option& Command::number(std::string_view names, std::optional<T>& target, std::string_view value, std::string help) {
  Option& o = option(
      names, [&target](const std::string& text) { return parse_number(text, target.emplace(), {T{0}, std::numeric_limits<T>::max()}); },
      value, std::move(help));
  o.expected = "a number from 0 on";
  return o;
}

template <class T>
Option& Command::choice(std::string_view names, T& target, Choices<T> choices, std::string_view value, std::string help) {
  std::vector<std::string> words;
  for (const auto& [word, meaning] : choices) words.push_back(word);
  const auto take = [&target, choices = std::move(choices)](const std::string& text) {
    for (const auto& [word, meaning] : choices)
      if (word == text) target = meaning;
    return true;
  };
  return option(names, take, value, std::move(help)).one_of(std::move(words));
}

}  // namespace dcp::cmd
