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

// -x: takes a value, which is no file. -r -F: takes a value, a file.
std::string value_flags(const Option& o) {
  if (o.value.empty()) return "";
  if (!o.choices.empty()) return " -x -a " + fish_quoted(joined(o.choices, " "));
  switch (o.offer) {
    case Offer::kFiles: return " -r -F";
    case Offer::kFolders: return " -x -a '(__fish_complete_directories)'";
    default: return " -x";
  }
}

std::string option_line(const std::string& start, const Option& o) {
  std::string names;
  for (const std::string& n : o.names) names += n.starts_with("--") ? " -l " + n.substr(2) : " -s " + n.substr(1);
  return start + names + value_flags(o) + " -d " + fish_quoted(o.help) + "\n";
}

// Fish knows no numbers of arguments: each position offers what any of them takes.
std::string positional_line(const std::string& start, const Option& p) {
  if (!p.choices.empty()) return start + " -a " + fish_quoted(joined(p.choices, " ")) + "\n";
  switch (p.offer) {
    case Offer::kFiles: return start + " -F\n";
    case Offer::kFolders: return start + " -a '(__fish_complete_directories)'\n";
    case Offer::kCommands: return start + " -a '(__dcpctl_commands (commandline -opc)[3..])'\n";
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
  text += std::string("    end\nend\n") + kFunctions;
  for (const auto& c : all) {
    const std::string start = "complete -c dcpctl -n " + fish_quoted("__dcpctl_at " + (c->path.size() == 1 ? "''" : short_path(*c)));
    text += "\n";
    for (const Option& o : c->options) text += option_line(start, o);
    std::string last;
    for (const Option& p : c->arguments)
      if (const std::string line = positional_line(start, p); line != std::exchange(last, line)) text += line;
  }
  return text;
}

}  // namespace dcp::cmd
