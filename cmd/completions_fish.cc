#include "completions.h"

namespace dcp::cmd {
namespace {

constexpr const char* kFishHead = R"(# fish completion for dcpctl. Generated from the command line by 'dcpctl completions fish'.

)";

// Completion conditions call these functions; both read the command line before the word that is being typed.
constexpr const char* kFunctions = R"(
# The command that is being given, such as "bench io".
function __dcpctl_command
    set -l path
    for word in (commandline -opc)[2..]
        if string match -q -- "$word"\t'*' (__dcpctl_commands $path)
            set -a path $word
        else if not string match -q -- '-*' $word
            break
        end
    end
    echo "$path"
end

function __dcpctl_at
    test (__dcpctl_command) = "$argv"
end

# Whether a word after the command's is there as a path.
function __dcpctl_has_path
    for word in (commandline -opc)[3..]
        test -e (string replace -r '^~/' "$HOME/" -- $word); and return 0
    end
    return 1
end

# Names that only dcpctl knows: of the first word that is a path, and of a run with its --step.
function __dcpctl_names
    set -l words (commandline -opc)
    set -l step (string match -rg -- '--step[= ](\S+)' "$words")
    for word in $words[3..]
        set -l path (string replace -r '^~/' "$HOME/" -- $word)
        if test -e "$path"
            if test "$argv[1]" = steps
                dcpctl completions steps -- "$path" 2>/dev/null
                return
            end
            set -l more
            test -n "$step"; and set more --step $step
            set -l prefix (string replace -r '^--[^=]*=' '' -- (commandline -ct))
            test -n "$prefix"; and dcpctl completions keys $more --prefix "$prefix" -- "$path" 2>/dev/null | string match -e ''
            or dcpctl completions keys $more -- "$path" 2>/dev/null # which fish matches otherwise
            return
        end
    end
    test "$argv[1]" = steps; and echo latest
end

# "key" or "step" says what each of them is; without it fish would say of each what it says of the option.
function __dcpctl_offer
    __dcpctl_names $argv[1]s | string replace -r '$' \t$argv[1]
end

function __dcpctl_dtype_rules
    set -l glob (string match -rg -- '^(.*=)' (commandline -ct))
    if test -n "$glob"
        string replace -r '^' -- "$glob" (__dcpctl_dtypes)
        echo "$glob"keep
    else
        string replace -r '([^.])$' '$1=' -- (__dcpctl_names keys)
    end
end

complete -c dcpctl -f
complete -c dcpctl -a '(__dcpctl_commands (__dcpctl_command))'
)";

std::string fish_quoted(std::string_view text) {
  std::string out = "'";
  for (const char c : text) {
    if (c == '\'' || c == '\\') out += '\\';
    out += c;
  }
  return out + "'";
}

// -x: takes a value that is not a file. -r -F: takes a file.
std::string value_flags(const Option& o) {
  if (o.value.empty()) return "";
  if (!o.choices.empty()) return " -x -a " + fish_quoted(joined(o.choices, " "));
  switch (o.offer) {
    case Offer::kFiles: return " -r -F";
    case Offer::kFolders: return " -x -a '(__fish_complete_directories)'";
    case Offer::kKeys: return " -x -a '(__dcpctl_offer key)'";
    case Offer::kSteps: return " -x -a '(__dcpctl_offer step)'";
    case Offer::kDtypes: return " -x -a " + fish_quoted(offered_dtypes());
    case Offer::kDtypeRules: return " -x -a '(__dcpctl_dtype_rules)'";
    default: return " -x";
  }
}

std::string option_line(const std::string& start, const Option& o) {
  std::string names;
  for (const std::string& n : o.names) names += n.starts_with("--") ? " -l " + n.substr(2) : " -s " + n.substr(1);
  return start + names + value_flags(o) + " -d " + fish_quoted(o.help) + "\n";
}

std::string argument_offer(const Option& p) {
  if (!p.choices.empty()) return " -a " + fish_quoted(joined(p.choices, " ")) + "\n";
  switch (p.offer) {
    case Offer::kFiles: return " -F\n";
    case Offer::kFolders: return " -a '(__fish_complete_directories)'\n";
    case Offer::kCommands: return " -a '(__dcpctl_commands (commandline -opc)[3..])'\n";
    case Offer::kKeys: return " -a '(__dcpctl_offer key)'\n";
    default: return "";
  }
}

}  // namespace

std::string fish_completion(const Commands& all) {
  std::string text =
      std::string(kFishHead) + "# The commands under a command, with what they do.\nfunction __dcpctl_commands\n    switch \"$argv\"\n";
  for (const auto& c : all) {
    if (commands_under(*c).empty()) continue;
    text += "        case " + fish_quoted(short_path(*c)) + "\n";
    for (const CommandName* sub : commands_under(*c))
      text += "            printf '%s\\t%s\\n' " + sub->name() + " " + fish_quoted(sub->about) + "\n";
  }
  text += "    end\nend\n\nfunction __dcpctl_dtypes\n    string split ' ' " + fish_quoted(offered_dtypes()) + "\nend\n" + kFunctions;
  for (const auto& c : all) {
    const std::string at = "__dcpctl_at " + (c->path.size() == 1 ? "''" : short_path(*c));
    const std::string start = "complete -c dcpctl -n " + fish_quoted(at);
    text += "\n";
    for (const Option& o : c->options) text += option_line(start, o);
    // Fish knows no numbers of arguments: from the word on that may be this one it is offered.
    std::string last;
    for (size_t i = 0; i < c->arguments.size(); ++i) {
      const std::string offer = argument_offer(c->arguments[i]);
      if (offer.empty() || offer == std::exchange(last, offer)) continue;
      // Keys follow a checkpoint, which is there.
      const bool before_keys = i + 1 < c->arguments.size() && c->arguments[i + 1].offer == Offer::kKeys;
      std::string when = at;
      if (before_keys) when += "; and not __dcpctl_has_path";
      else if (c->arguments[i].offer == Offer::kKeys) when += "; and __dcpctl_has_path";
      else if (i > 0) when += "; and test (count (commandline -opc)) -ge " + std::to_string(c->path.size() + i);
      text += "complete -c dcpctl -n " + fish_quoted(when) + offer;
    }
  }
  return text;
}

}  // namespace dcp::cmd
