#include "usage.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <optional>

namespace dcp::cmd {
namespace {

// Edits between two words: insert, delete, replace, swap neighbours.
size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<size_t> before(b.size() + 1), last(b.size() + 1), row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    before.swap(last);
    last.swap(row);
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      row[j] = std::min({last[j] + 1, row[j - 1] + 1, last[j - 1] + (a[i - 1] != b[j - 1])});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) row[j] = std::min(row[j], before[j - 2] + 1);
    }
  }
  return row[b.size()];
}

// The name that `word` is a typo or the beginning of; empty if none is near.
std::string closest(const std::string& word, const std::vector<std::string>& names) {
  std::string best;
  size_t least = std::max<size_t>(1, word.size() / 3) + 1;
  for (const std::string& n : names)
    if (const size_t d = edit_distance(word, n); d < least) least = d, best = n;
  if (best.empty() && word.size() > 1 && word != "--")
    for (const std::string& n : names)
      if (n.starts_with(word) && (best.empty() || n.size() < best.size())) best = n;
  return best;
}

Problem wrong(const CommandText& command, std::string what, const std::string& meant = "") {
  Problem p = make_problem(ProblemId::usage, {});
  p.what = std::move(what);
  p.hint = meant.empty() ? "see '" + joined(command.path, " ") + " --help'" : "did you mean " + meant + "?";
  return p;
}

// Goes over the command line as the parser does, to name the first thing that is wrong with it: CLI11 reports the last consequence
// ("A subcommand is required") of a misspelt command.
class Explanation {
 public:
  Explanation(const CommandText& root, const std::vector<std::string>& words) : command_(&root), words_(words) {}

  std::optional<Problem> find() {
    for (; !problem_ && at_ < words_.size(); ++at_) {
      const std::string& w = words_[at_];
      if (w == "--") only_arguments_ = true;
      else if (!only_arguments_ && w.size() > 1 && w[0] == '-') option(w);
      else argument(w);
    }
    if (problem_) return problem_;
    if (!command_->commands.empty()) return wrong(*command_, "a command is missing");
    for (size_t i = arguments_; i < command_->positionals.size(); ++i)
      if (const OptionText& p = command_->positionals[i]; p.required) return wrong(*command_, p.value + " is missing");
    return std::nullopt;
  }

 private:
  const OptionText* named(const std::string& name) const {
    for (const OptionText& o : command_->options)
      if (std::ranges::find(o.names, name) != o.names.end()) return &o;
    return nullptr;
  }

  void option(const std::string& word) {
    const bool is_long = word.starts_with("--");
    const std::string name = is_long ? word.substr(0, word.find('=')) : word.substr(0, 2);
    const OptionText* o = named(name);
    if (!o) {
      std::vector<std::string> names;
      for (const OptionText& known : command_->options) names.insert(names.end(), known.names.begin(), known.names.end());
      problem_ = wrong(*command_, "unknown option '" + name + "'", is_long ? closest(name, names) : "");
      return;
    }
    if (o->value.empty()) return;
    std::string value = word.substr(std::min(word.size(), is_long ? name.size() + 1 : 2));
    if (word.size() == name.size()) {
      if (at_ + 1 == words_.size()) {
        problem_ = wrong(*command_, name + " needs a value: " + name + " " + o->value);
        return;
      }
      value = words_[++at_];
    }
    if (!o->choices.empty()) check_choice(*o, name, value);
  }

  void argument(const std::string& word) {
    if (!command_->commands.empty()) {
      const auto next = std::ranges::find(command_->commands, word, &CommandText::name);
      if (next == command_->commands.end()) problem_ = unknown_command(*command_, word);
      else command_ = &*next;
      return;
    }
    const size_t i = std::min(arguments_++, command_->positionals.size());
    const auto& known = command_->positionals;
    if (i < known.size() && !known[i].choices.empty()) return check_choice(known[i], known[i].value, word);
    if (i == known.size() && (known.empty() || !known.back().repeatable))
      problem_ = wrong(*command_, "one argument too many: '" + word + "'");
  }

  void check_choice(const OptionText& o, const std::string& name, const std::string& value) {
    if (std::ranges::find(o.choices, value) != o.choices.end()) return;
    problem_ = wrong(*command_, name + " '" + value + "' is none of " + joined(o.choices, ", "), closest(value, o.choices));
  }

  const CommandText* command_;
  const std::vector<std::string>& words_;
  size_t at_ = 0, arguments_ = 0;
  bool only_arguments_ = false;
  std::optional<Problem> problem_;
};

}  // namespace

Problem unknown_command(const CommandText& parent, const std::string& word) {
  std::vector<std::string> names;
  for (const CommandText& c : parent.commands) names.push_back(c.name());
  if (names.empty()) return wrong(parent, "'" + joined(parent.path, " ") + "' has no commands of its own, such as '" + word + "'");
  return wrong(parent, "'" + word + "' is not a command of " + joined(parent.path, " "), closest(word, names));
}

Problem usage_problem(const CLI::App& app, const std::vector<std::string>& words, const CLI::ParseError& error) {
  const CommandText root = command_tree(app);
  if (const std::optional<Problem> p = Explanation(root, words).find()) return *p;
  // What the tree does not say: ranges, options that exclude each other.
  const CLI::App* given = &app;
  while (!given->get_subcommands().empty()) given = given->get_subcommands().back();
  const std::string text = error.what();
  return wrong(command_tree(*given), text.substr(0, text.find('\n')));
}

}  // namespace dcp::cmd
