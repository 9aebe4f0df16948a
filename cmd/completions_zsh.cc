#include <algorithm>

#include "completions.h"

namespace dcp::cmd {
namespace {

constexpr const char* kZshHead = R"(#compdef dcpctl
# zsh completion for dcpctl. Generated from the command line by 'dcpctl completions zsh'.
)";

// Read from $fpath this file is the body of _dcpctl; sourced it registers it.
constexpr const char* kZshTail = R"(
if [[ $zsh_eval_context[-1] == loadautofunc ]]; then
  _dcpctl "$@"
else
  compdef _dcpctl dcpctl
fi
)";

std::string function_name(const Command& command) {
  std::string name = "_" + joined(command.path, "_");
  std::ranges::replace(name, '-', '_');
  return name;
}

// Text inside an _arguments specification.
std::string plain(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '[' || c == ']' || c == ':' || c == '\\') out += '\\';
    out += c;
  }
  return out;
}

// ":FILE:_files": the description of a value and its completion.
std::string action(const Option& o) {
  const std::string message = ":" + plain(o.value) + ":";
  if (o.value.empty()) return "";
  if (!o.choices.empty()) return message + "(" + joined(o.choices, " ") + ")";
  switch (o.offer) {
    case Offer::kFiles: return message + "_files";
    case Offer::kFolders: return message + "_files -/";
    case Offer::kCommands: return message + " _dcpctl_commands ${words[2,CURRENT-1]}";
    case Offer::kKeys: return message + "_dcpctl_keys";
    case Offer::kSteps: return message + "_dcpctl_steps";
    case Offer::kDtypes: return message + "(" + offered_dtypes() + ")";
    case Offer::kDtypeRules: return message + "_dcpctl_dtype_rules";
    case Offer::kNothing: return message + " ";
  }
  return "";
}

// "-j+": the value in the same word or in the next; "--threads=": after an equals sign or in the next.
std::string option_spec(const Option& o) {
  std::vector<std::string> names;
  for (const std::string& n : o.names) names.push_back(n + (o.value.empty() ? "" : n.starts_with("--") ? "=" : "+"));
  const std::string rest = "[" + plain(o.help) + "]" + action(o);
  if (names.size() == 1) return shell_quoted((o.repeatable ? "*" : "") + names.front() + rest);
  return shell_quoted(o.repeatable ? "*" : "(" + joined(o.names, " ") + ")") + "{" + joined(names, ",") + "}" + shell_quoted(rest);
}

std::string positional_spec(const Option& p) {
  const std::string does = action(p);
  return shell_quoted(p.repeatable ? "*" + does : p.required ? does : ":" + does);
}

// Names that only dcpctl knows. _arguments leaves in $line what was given as arguments: the first is CKPT.
constexpr const char* kNames = R"ZSH(
_dcpctl_names() {
  local ckpt=${(Q)line[1]}
  [[ -n $ckpt ]] || return
  dcpctl completions $1 ${ckpt/#\~\//$HOME/} "${@[2,-1]}" 2>/dev/null
}
_dcpctl_keys() {
  local -a names step
  [[ -z $opt_args[--step] ]] || step=(--step $opt_args[--step])
  names=(${(f)"$(_dcpctl_names keys $step --prefix "${(Q)PREFIX}")"})
  (( $#names )) || names=(${(f)"$(_dcpctl_names keys $step)"})  # for who lets zsh match otherwise
  local -a whole=(${names:#*.}) parts=(${(M)names:#*.})  # of parts more components follow
  compadd -S '' -a parts
  compadd "$@" -a whole
}
_dcpctl_steps() {
  compadd "$@" - ${(f)"$(_dcpctl_names steps)"}
}
_dcpctl_dtype_rules() {
  if compset -P '*='; then compadd "$@" - $(_dcpctl_dtypes) keep
  else _dcpctl_keys -S = "$@"
  fi
}
)ZSH";

std::string children_function(const Commands& all) {
  std::string text = "\n# The commands under a command.\n_dcpctl_commands() {\n  local -a commands\n  case \"$*\" in\n";
  for (const auto& c : all) {
    if (commands_under(*c).empty()) continue;
    text += "    " + shell_quoted(short_path(*c)) + ")\n      commands=(\n";
    for (const CommandName* sub : commands_under(*c))
      text += "        " + shell_quoted(plain(sub->name()) + ":" + std::string(sub->about)) + "\n";
    text += "      ) ;;\n";
  }
  return text + "  esac\n  _describe -t commands command commands\n}\n";
}

std::string command_function(const Command& command) {
  std::string text = "\n" + function_name(command) + "() {\n";
  const std::vector<const CommandName*> commands = commands_under(command);
  if (!commands.empty()) text += "  local curcontext=\"$curcontext\" state line\n  typeset -A opt_args\n";
  else text += "  local line\n  typeset -A opt_args\n";
  text += "  _arguments -s -S -C";
  for (const Option& o : command.options) text += " \\\n    " + option_spec(o);
  for (const Option& p : command.arguments) text += " \\\n    " + positional_spec(p);
  if (commands.empty()) return text + "\n}\n";
  const std::string path = short_path(command);
  text += " \\\n    " + shell_quoted("1:command: _dcpctl_commands" + (path.empty() ? "" : " " + path)) + " \\\n    '*::: :->rest'\n";
  text += "  [[ $state == rest ]] || return\n  words=($line[1] \"${words[@]}\")\n  (( CURRENT += 1 ))\n  case $line[1] in\n";
  for (const CommandName* c : commands) text += "    " + c->name() + ") " + function_name(command) + "_" + c->name() + " ;;\n";
  return text + "  esac\n}\n";
}

}  // namespace

std::string zsh_completion(const Commands& all) {
  std::string text = kZshHead + children_function(all) + kNames + "_dcpctl_dtypes() {\n  print -l " + offered_dtypes() + "\n}\n";
  for (const auto& c : all) text += command_function(*c);
  return text + kZshTail;
}

}  // namespace dcp::cmd
