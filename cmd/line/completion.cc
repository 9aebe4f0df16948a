#include "line/completion.h"

#include <algorithm>

#include "line/commands.h"
#include "line/option_values.h"
#include "maps/builtin.h"

namespace dcp::cmd {
namespace {

class UnfinishedReader {
 public:
  explicit UnfinishedReader(Context& context) : context_(context) { line_.command = build_command("", context); }

  Unfinished read(const std::vector<std::string>& words) {
    for (size_t i = 0; i + 1 < words.size() && line_.command; ++i) pass(words[i]);
    if (line_.command) last(words.empty() ? "" : words.back());
    return std::move(line_);
  }

 private:
  bool names_option(const std::string& word) const { return !only_arguments_ && word.size() > 1 && word.front() == '-'; }

  void pass(const std::string& word) {
    if (const Option* o = std::exchange(line_.of, nullptr); o != nullptr && (o->alone.empty() || !names_option(word)))
      return value(*o, word);
    if (!only_arguments_ && word == "--") return void(only_arguments_ = true);
    if (names_option(word)) return option(word);
    if (commands_under(*line_.command).empty()) return line_.arguments.push_back(word);
    const CommandName* const named = command_named(*line_.command, word);
    line_.command = named == nullptr ? nullptr : build_command(named->path, context_);
  }

  // --threads=4, --threads 4, -j4, -j 4; of -qj 4 the last takes the value.
  void option(const std::string& word) {
    const bool is_long = word.starts_with("--");
    const size_t end = is_long ? std::min(word.find('='), word.size()) : 2;
    Option* o = line_.command->find(word.substr(0, end));
    if (!is_long && o != nullptr && o->value.empty() && end < word.size()) return option("-" + word.substr(end));
    if (o == nullptr) return;
    o->given.emplace_back();
    if (o->value.empty()) return;
    if (end < word.size()) value(*o, word.substr(end + (is_long ? 1 : 0)));
    else line_.of = o;
  }

  void value(const Option& o, const std::string& text) {
    if (o.name() == "--step") line_.step = text;
  }

  void last(const std::string& word) {
    line_.typed = word;
    if (line_.of != nullptr && (line_.of->alone.empty() || (!line_.arguments.empty() && !names_option(word)))) return;
    line_.of = nullptr;
    if (const size_t end = word.find('='); names_option(word) && word.starts_with("--") && end != word.npos) {
      line_.of = line_.command->find(word.substr(0, end));
      line_.before = word.substr(0, end + 1);
      line_.typed = word.substr(end + 1);
      return;
    }
    line_.is_option = !only_arguments_ && word.starts_with('-');
    const auto& declared = line_.command->arguments;
    if (line_.is_option || declared.empty()) return;
    const size_t at = std::min(line_.arguments.size(), declared.size() - 1);
    if (at == line_.arguments.size() || declared[at].repeatable) line_.of = &declared[at];
  }

  Context& context_;
  Unfinished line_;
  bool only_arguments_ = false;
};

using Words = std::vector<std::string>;

// As a command's names are offered, with what it does.
Words names_of_commands(const Command& parent) {
  Words all;
  for (const CommandName* c : commands_under(parent)) all.push_back(c->name() + "\t" + std::string(c->about));
  if (short_path(parent).empty())
    for (const CommandAlias& a : command_aliases())
      if (a.is_told) all.push_back(std::string(a.name) + "\t" + std::string(command_named(parent, a.name)->about));
  return all;
}

Words names_of_options(const Command& command) {
  Words all;
  for (const Option& o : command.options)
    for (const std::string& name : o.names)
      if (o.given.empty() || o.repeatable) all.push_back(name + "\t" + o.help);
  return all;
}

// Of `help bench` the commands under bench.
Words subcommands(Words path, Context& context) {
  path.emplace_back();
  const Unfinished inner = read_unfinished(path, context);
  return inner.command ? names_of_commands(*inner.command) : Words{};
}

Words dtypes(bool with_keep) {
  Words all = dtype_names();
  if (with_keep) all.emplace_back("keep");
  return all;
}

Words rules(const Unfinished& line, const SourceNames& names) {
  Words all;
  if (const size_t end = line.typed.rfind('='); end != line.typed.npos) {
    for (const std::string& dtype : dtypes(true)) all.push_back(line.typed.substr(0, end + 1) + dtype);
    return all;
  }
  for (const std::string& key : names.keys(line.typed)) all.push_back(key.ends_with('.') ? key : key + "=");
  return all;
}

// A path that is begun is completed as one.
Words names_of_maps(const Unfinished& line) {
  if (line.typed.find('/') != line.typed.npos) return {":files"};
  Words all;
  for (const maps::BuiltinMap& m : maps::builtin_maps()) all.emplace_back(m.name);
  if (line.of->name() == "--map") all.insert(all.end(), {"auto", "none"});
  return all;
}

Words values(const Unfinished& line, Context& context, const SourceNames& names) {
  if (!line.of->choices.empty()) return line.of->choices;
  switch (line.of->offer) {
    case Offer::kFiles: return {":files"};
    case Offer::kFolders: return {":folders"};
    case Offer::kCommands: return subcommands(line.arguments, context);
    case Offer::kKeys: return names.keys(line.typed);
    case Offer::kSteps: return names.steps();
    case Offer::kDtypes: return dtypes(false);
    case Offer::kDtypeRules: return rules(line, names);
    case Offer::kMaps: return names_of_maps(line);
    case Offer::kNothing: break;
  }
  return {};
}

}  // namespace

std::string Unfinished::source() const {
  const bool asked = of != nullptr && (of->offer == Offer::kKeys || of->offer == Offer::kSteps || of->offer == Offer::kDtypeRules);
  return asked && !arguments.empty() ? arguments.front() : "";
}

Unfinished read_unfinished(const std::vector<std::string>& words, Context& context) { return UnfinishedReader(context).read(words); }

std::string offered(const Unfinished& line, Context& context, const SourceNames& names) {
  Words all;
  if (line.command && line.is_option) all = names_of_options(*line.command);
  else if (line.command && line.of != nullptr) all = values(line, context, names);
  else if (line.command && line.before.empty()) all = names_of_commands(*line.command);
  std::string text;
  for (const std::string& word : all) text += (word.starts_with(':') ? "" : line.before) + word + "\n";
  return text;
}

}  // namespace dcp::cmd
