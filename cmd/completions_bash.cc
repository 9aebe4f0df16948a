#include "completions.h"

namespace dcp::cmd {
namespace {

constexpr const char* kBashHead = R"(# bash completion for dcpctl. Generated from the command line by 'dcpctl completions bash'.

)";

constexpr const char* kBashTail = R"BASH(
# Names that only dcpctl knows. The path is as it was typed: quotes and a tilde are what the shell would have taken out.
_dcpctl_names() {
  local what=$1 ckpt=${2//[\"\'\\]/}
  [[ $ckpt ]] && dcpctl completions "$what" "${ckpt/#\~\//$HOME/}" "${@:3}" 2>/dev/null
}

_dcpctl() {
  local cur word i glued='' path='' before='' arguments=0 options='' valued='' list='' kind='' ckpt='' step=''
  local -a words=()
  # Bash hands over --option=value as three words; here they are two, as in --option value. Any other word with a '=' is one.
  for ((i = 1; i <= COMP_CWORD; i++)); do
    word=${COMP_WORDS[i]}
    if [[ $word == '=' && ${words[-1]-} == --* ]]; then words+=('') glued=1
    elif [[ $word == '=' && ${#words[@]} -gt 0 ]]; then words[-1]+='=' glued=1
    elif [[ $glued ]]; then words[-1]+=$word glued=''
    else words+=("$word")
    fi
  done
  cur=${words[-1]}
  unset 'words[-1]'

  _dcpctl_options ''
  for word in "${words[@]}"; do
    if [[ $before ]]; then
      [[ $before != --step ]] || step=$word
      before=''
    elif [[ " $(_dcpctl_commands "$path") " == *" $word "* ]]; then
      path=${path:+$path }$word
      _dcpctl_options "$path"
    elif [[ " $valued " == *" $word "* ]]; then before=$word
    elif [[ $word != -* ]]; then
      ((arguments++)) || ckpt=$word
    fi
  done

  if [[ $before ]]; then _dcpctl_value "$path $before"
  elif [[ $cur == -* ]]; then list=$options
  else
    list=$(_dcpctl_commands "$path")
    _dcpctl_value "$path $arguments"
  fi
  COMPREPLY=()
  case $kind in
    file) compopt -o default ;;
    folder) compopt -o dirnames ;;
    command) mapfile -t COMPREPLY < <(compgen -W "$(_dcpctl_commands "${words[*]:1}")" -- "$cur") ;;
    keys)
      mapfile -t COMPREPLY < <(_dcpctl_names keys "$ckpt" ${cur:+--prefix "$cur"} ${step:+--step "$step"})
      [[ " ${COMPREPLY[*]} " != *'. '* ]] || compopt -o nospace ;;  # more components follow
    steps) mapfile -t COMPREPLY < <(compgen -W "$(_dcpctl_names steps "$ckpt")" -- "$cur") ;;
    dtype-rule)
      if [[ $cur == *=* ]]; then mapfile -t COMPREPLY < <(compgen -W "$(_dcpctl_dtypes) keep" -- "${cur##*=}")
      else
        compopt -o nospace
        mapfile -t COMPREPLY < <(_dcpctl_names keys "$ckpt" ${cur:+--prefix "$cur"} ${step:+--step "$step"})
        COMPREPLY=("${COMPREPLY[@]/%/=}")
        COMPREPLY=("${COMPREPLY[@]/%.=/.}")
      fi ;;
    *) mapfile -t COMPREPLY < <(compgen -W "$list" -- "$cur") ;;
  esac
}

complete -F _dcpctl dcpctl
)BASH";

std::string child_names(const Command& command) {
  std::string names;
  for (const CommandName* c : commands_under(command)) names += (names.empty() ? "" : " ") + c->name();
  return names;
}

std::string option_case(const Command& command) {
  std::string all, valued;
  for (const Option& o : command.options)
    for (const std::string& n : o.names) {
      all += (all.empty() ? "" : " ") + n;
      if (!o.value.empty()) valued += (valued.empty() ? "" : " ") + n;
    }
  return "    " + shell_quoted(short_path(command)) + ")\n      options=" + shell_quoted(all) + "\n      valued=" + shell_quoted(valued) +
         " ;;\n";
}

std::string value_case(const std::string& pattern, const Option& o) {
  if (!o.choices.empty()) return "    " + pattern + ") list=" + shell_quoted(joined(o.choices, " ")) + " ;;\n";
  switch (o.offer) {
    case Offer::kFiles: return "    " + pattern + ") kind=file ;;\n";
    case Offer::kFolders: return "    " + pattern + ") kind=folder ;;\n";
    case Offer::kCommands: return "    " + pattern + ") kind=command ;;\n";
    case Offer::kKeys: return "    " + pattern + ") kind=keys ;;\n";
    case Offer::kSteps: return "    " + pattern + ") kind=steps ;;\n";
    case Offer::kDtypes: return "    " + pattern + ") list=$(_dcpctl_dtypes) ;;\n";
    case Offer::kDtypeRules: return "    " + pattern + ") kind=dtype-rule ;;\n";
    case Offer::kNothing: break;
  }
  return "";
}

// Options by name; positional arguments by number, a repeatable one with whatever number follows.
std::string value_cases(const Command& command) {
  const std::string path = short_path(command);
  std::string text;
  for (const Option& o : command.options) {
    std::string pattern;
    for (const std::string& n : o.names) pattern += (pattern.empty() ? "" : " | ") + shell_quoted(path + " " + n);
    text += value_case(pattern, o);
  }
  for (size_t i = 0; i < command.arguments.size(); ++i) {
    const Option& p = command.arguments[i];
    text += value_case(p.repeatable ? shell_quoted(path + " ") + "[0-9]*" : shell_quoted(path + " " + std::to_string(i)), p);
  }
  return text;
}

}  // namespace

std::string bash_completion(const Commands& all) {
  std::string children, options, values;
  for (const auto& c : all) {
    if (!commands_under(*c).empty())
      children += "    " + shell_quoted(short_path(*c)) + ") echo " + shell_quoted(child_names(*c)) + " ;;\n";
    options += option_case(*c);
    values += value_cases(*c);
  }
  return std::string(kBashHead) + "# The commands under a command.\n_dcpctl_commands() {\n  case $1 in\n" + children + "  esac\n}\n\n" +
         "# Sets `options`, and `valued`: those of them that take a value.\n_dcpctl_options() {\n  case $1 in\n" + options +
         "  esac\n}\n\n" +
         "# Sets `kind` or `list` for the value of an option, or for an argument by its number.\n_dcpctl_value() {\n  case $1 in\n" +
         values + "  esac\n}\n\n_dcpctl_dtypes() {\n  echo " + shell_quoted(offered_dtypes()) + "\n}\n" + kBashTail;
}

}  // namespace dcp::cmd
