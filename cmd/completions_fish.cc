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
std::string value_flags(const OptionText& o) {
  switch (o.kind) {
    case ValueKind::kNone: return "";
    case ValueKind::kText: return " -x";
    case ValueKind::kFile: return " -r -F";
    case ValueKind::kFolder: return " -x -a '(__fish_complete_directories)'";
    case ValueKind::kChoice: return " -x -a " + fish_quoted(joined(o.choices, " "));
    case ValueKind::kCommand: return " -x -a '(__dcpctl_commands)'";
  }
  return "";
}

std::string option_line(const std::string& start, const OptionText& o) {
  std::string names;
  for (const std::string& n : o.names) names += n.starts_with("--") ? " -l " + n.substr(2) : " -s " + n.substr(1);
  return start + names + value_flags(o) + " -d " + fish_quoted(o.help) + "\n";
}

// Fish knows no numbers of arguments: each position offers what any of them takes.
std::string positional_line(const std::string& start, const OptionText& p) {
  switch (p.kind) {
    case ValueKind::kFile: return start + " -F\n";
    case ValueKind::kFolder: return start + " -a '(__fish_complete_directories)'\n";
    case ValueKind::kChoice: return start + " -a " + fish_quoted(joined(p.choices, " ")) + "\n";
    case ValueKind::kCommand: return start + " -a '(__dcpctl_commands (commandline -opc)[3..])'\n";
    case ValueKind::kNone:
    case ValueKind::kText: break;
  }
  return "";
}

}  // namespace

std::string fish_completion(const CommandText& root) {
  std::string text =
      std::string(kFishHead) + "# The commands under a command, with what they do.\nfunction __dcpctl_commands\n    switch \"$argv\"\n";
  for (const CommandText* c : all_commands(root)) {
    if (c->commands.empty()) continue;
    text += "        case " + fish_quoted(short_path(*c)) + "\n";
    for (const CommandText& sub : c->commands)
      text += "            printf '%s\\t%s\\n' " + sub.name() + " " + fish_quoted(sub.about) + "\n";
  }
  text += std::string("    end\nend\n") + kFunctions;
  for (const CommandText* c : all_commands(root)) {
    const std::string start = "complete -c dcpctl -n " + fish_quoted("__dcpctl_at " + (c == &root ? "''" : short_path(*c)));
    text += "\n";
    for (const OptionText& o : c->options) text += option_line(start, o);
    std::string last;
    for (const OptionText& p : c->positionals)
      if (const std::string line = positional_line(start, p); line != std::exchange(last, line)) text += line;
  }
  return text;
}

}  // namespace dcp::cmd
