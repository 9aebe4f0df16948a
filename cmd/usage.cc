#include "usage.h"

#include <algorithm>
#include <utility>

#include "base/closest.h"
#include "command_text.h"
#include "option_values.h"

namespace dcp::cmd {
namespace {

// What other tools call these.
constexpr std::pair<std::string_view, std::string_view> kOtherNames[] = {{"merge", "consolidate"},
                                                                         {"export", "consolidate"},
                                                                         {"dcp_to_torch", "consolidate"},
                                                                         {"dcp_to_torch_save", "consolidate"},
                                                                         {"info", "inspect"},
                                                                         {"show", "inspect"},
                                                                         {"ls", "inspect"},
                                                                         {"list", "inspect"},
                                                                         {"check", "verify"},
                                                                         {"validate", "verify"},
                                                                         {"fsck", "verify"},
                                                                         {"torch_to_dcp", "convert"},
                                                                         {"torch_save_to_dcp", "convert"},
                                                                         {"shard", "reshard"},
                                                                         {"split", "reshard"},
                                                                         {"quantize", "cast"},
                                                                         {"benchmark", "bench"}};

// The name that `word` is a typo or the beginning of; empty if none is near.
std::string closest(const std::string& word, const std::vector<std::string>& names) {
  Closest near(word);
  for (const std::string& n : names) near.offer(n);
  std::string best = near.found();
  if (best.empty() && word.size() > 1 && word != "--")
    for (const std::string& n : names)
      if (n.starts_with(word) && (best.empty() || n.size() < best.size())) best = n;
  return best;
}

Problem wrong(const Command& command, std::string what, const std::string& meant = "") {
  Problem p = make_problem(ProblemId::usage, {});
  p.what = std::move(what);
  p.hint = meant.empty() ? "see '" + joined(command.path, " ") + " --help'" : "did you mean " + meant + "?";
  return p;
}

const CommandName* command_named(const Command& parent, const std::string& word) {
  for (const CommandName* c : commands_under(parent))
    if (c->name() == word) return c;
  return nullptr;
}

Problem unknown_command(const Command& parent, const std::string& word) {
  std::vector<std::string> names;
  for (const CommandName* c : commands_under(parent)) names.push_back(c->name());
  if (names.empty()) return wrong(parent, "'" + joined(parent.path, " ") + "' has no commands of its own, such as '" + word + "'");
  std::string meant = closest(word, names);
  for (const auto& [other, ours] : kOtherNames)
    if (other == word && std::ranges::find(names, ours) != names.end()) meant = ours;
  return wrong(parent, "'" + word + "' is not a command of " + joined(parent.path, " "), meant);
}

class Reader {
 public:
  Reader(const std::vector<std::string>& words, Context& context) : words_(words), context_(context) {
    line_.command = build_command("", context);
  }

  CommandLine read() {
    bool only_arguments = false;
    for (; line_.requested == Action::kRun && at_ < words_.size(); ++at_) {
      const std::string& w = words_[at_];
      if (!only_arguments && w == "--") only_arguments = true;
      else if (!only_arguments && w.starts_with("--")) long_option(w);
      else if (!only_arguments && w.size() > 1 && w[0] == '-') short_options(w);
      else argument(w);
    }
    if (line_.requested == Action::kRun && !problem_) check_whole();
    if (line_.requested == Action::kRun && problem_) throw Error(std::move(*problem_));
    return std::move(line_);
  }

 private:
  Command& command() { return *line_.command; }
  bool is_group() { return !commands_under(command()).empty(); }

  // The first one counts; what comes after it is read only because it may ask for help.
  void blame(std::string what, const std::string& meant = "") {
    if (!problem_) problem_ = wrong(command(), std::move(what), meant);
  }

  void blame_both(const Option* a, const Option* b) {
    const auto& given = command().given;
    if (std::ranges::find(given, b) < std::ranges::find(given, a)) std::swap(a, b);
    blame(a->name() + " and " + b->name() + " exclude each other");
  }

  Option* named(const std::string& name) {
    if (Option* o = command().find(name)) return o;
    std::vector<std::string> names;
    for (const Option& known : command().options) names.insert(names.end(), known.names.begin(), known.names.end());
    if (problem_) return nullptr;
    const std::string meant = name.starts_with("--") ? closest(name, names) : "";
    blame("unknown option '" + name + "'", meant);
    const bool is_output = name == "-o" || name == "--output" || name == "--out";
    if (is_output && std::ranges::find(command().arguments, "OUT", &Option::value) != command().arguments.end())
      problem_->hint = "OUT is an argument: " + usage_line(command());
    else if (is_group() && meant.empty())
      problem_->hint = "options of a command stand after it; see '" + joined(command().path, " ") + " --help'";
    return nullptr;
  }

  void long_option(const std::string& word) {
    const size_t equals = word.find('=');
    const std::string name = word.substr(0, equals);
    Option* o = named(name);
    if (o == nullptr) return;
    if (o->value.empty() && equals != std::string::npos) return blame(name + " takes no value");
    if (o->value.empty()) return give(*o, name, "");
    if (equals != std::string::npos) give(*o, name, word.substr(equals + 1));
    else give_next(*o, name);
  }

  // "-j4", "-j 4", "-qv".
  void short_options(const std::string& word) {
    for (size_t i = 1; i < word.size(); ++i) {
      const std::string name = {'-', word[i]};
      Option* o = named(name);
      if (o == nullptr) return;
      if (o->value.empty()) {
        give(*o, name, "");
        continue;
      }
      if (i + 1 < word.size()) give(*o, name, word.substr(i + 1));
      else give_next(*o, name);
      return;
    }
  }

  void give_next(Option& o, const std::string& name) {
    if (at_ + 1 == words_.size()) return blame(name + " needs a value: " + name + " " + o.value);
    give(o, name, words_[++at_]);
  }

  void argument(const std::string& word) {
    if (is_group()) {
      if (const CommandName* next = command_named(command(), word)) enter(*next);
      else if (!problem_) problem_ = unknown_command(command(), word);
      return;
    }
    auto& known = command().arguments;
    const size_t i = std::min(arguments_++, known.size());
    if (i < known.size()) return give(known[i], known[i].value, word);
    if (known.empty() || !known.back().repeatable) return blame("one argument too many: '" + word + "'");
    give(known.back(), known.back().value, word);
  }

  void enter(const CommandName& next) {
    line_.command = build_command(next.path, context_);
    if (is_group()) return;
    for (const auto& [name, text] : std::exchange(before_, {})) {
      if (Option* o = command().find(name)) give(*o, name, text);
      else blame("'" + joined(command().path, " ") + "' has no option " + name);
    }
  }

  static Problem lacks_value(const Option& o) {
    Problem p = make_problem(ProblemId::usage, {}, o.name() + " ''", "a value");
    p.hint = o.name().starts_with('-') ? "leave " + o.name() + " out, or give it a value; a variable in a script may be empty"
                                       : "a variable in a script may be empty";
    return p;
  }

  void give(Option& o, const std::string& name, const std::string& text) {
    if (o.action != Action::kRun) return line_.requested = o.action, void();
    if (is_group()) return before_.emplace_back(name, text), void();
    if (text.empty() && !o.value.empty() && !problem_) problem_ = lacks_value(o);
    if (problem_) return;
    for (const std::string& part : o.list ? split_list(text) : std::vector<std::string>{text}) {
      if (!o.choices.empty() && std::ranges::find(o.choices, part) == o.choices.end())
        return blame(name + " '" + part + "' is none of " + joined(o.choices, ", "), closest(part, o.choices));
      if (!o.take(part)) return blame(name + " '" + part + "' is not " + o.expected);
    }
    if (!o.names.empty()) command().given.push_back(&o);
    o.given.push_back(text);
  }

  void check_whole() {
    if (is_group()) return blame("a command is missing");
    for (const Option& a : command().arguments)
      if (a.required && a.given.empty()) return blame(a.value + " is missing");
    for (const Option* o : command().given) {
      for (const std::string& other : o->needed)
        if (command().find(other)->given.empty()) return blame(o->name() + " needs " + other);
      for (const std::string& other : o->excluded)
        if (!command().find(other)->given.empty()) return blame_both(o, command().find(other));
    }
  }

  const std::vector<std::string>& words_;
  Context& context_;
  CommandLine line_;
  size_t at_ = 0, arguments_ = 0;
  std::vector<std::pair<std::string, std::string>> before_;  // options before the command, which takes them
  std::optional<Problem> problem_;
};

}  // namespace

CommandLine read_command_line(const std::vector<std::string>& words, Context& context) { return Reader(words, context).read(); }

std::unique_ptr<Command> command_of_words(const std::vector<std::string>& words, Context& context) {
  std::unique_ptr<Command> command = build_command("", context);
  for (const std::string& w : words) {
    const CommandName* next = command_named(*command, w);
    if (next == nullptr) throw Error(unknown_command(*command, w));
    command = build_command(next->path, context);
  }
  return command;
}

}  // namespace dcp::cmd
