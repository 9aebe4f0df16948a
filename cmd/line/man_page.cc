#include "line/man_page.h"

#include <algorithm>
#include <cctype>
#include <utility>

#include "line/command_text.h"
#include "line/commands.h"
#include "line/exit_status.h"
#include "line/usage.h"

namespace dcp::cmd {
namespace {

// Text for roff. Quotes, hyphens and the like come out as typed, so that a command line can be copied from the page.
std::string roff(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '\\') out += "\\e";
    else if (c == '-') out += "\\-";
    else if (c == '\'') out += "\\(aq";
    else if (c == '`') out += "\\(ga";
    else if (c == '^') out += "\\(ha";
    else if (c == '~') out += "\\(ti";
    else out += c;
  }
  return out;
}

// A whole line of text: one that begins with a dot would be a request.
std::string roff_line(std::string_view text) { return (text.starts_with('.') ? "\\&" : "") + roff(text) + "\n"; }
std::string bold(std::string_view text) { return "\\fB" + roff(text) + "\\fR"; }
std::string italic(std::string_view text) { return "\\fI" + roff(text) + "\\fR"; }
std::string section(std::string_view title) { return ".SH " + std::string(title) + "\n"; }

std::string upper(std::string text) {
  for (char& c : text) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  return text;
}

// A help text as a sentence; what the help does not say of the option itself is added.
std::string sentences(const Option& o) {
  const auto says = [&](const std::string& word) { return o.help.find(word) != std::string::npos; };
  std::string text = o.help + ".";
  if (!std::ranges::all_of(o.choices, says)) text += " One of " + joined(o.choices, ", ") + ".";
  if (o.repeatable && !o.names.empty() && !o.value.empty() && !says("repeatable")) text += " May be given more than once.";
  return text;
}

std::string page_head(const Option& o) {
  std::string head;
  for (const std::string& n : o.names) head += (head.empty() ? "" : ", ") + bold(n);
  if (!o.value.empty()) head += (head.empty() ? "" : " ") + italic(o.value);
  return head;
}

std::string entries(const std::deque<Option>& options, const std::string& group) {
  std::string text;
  for (const Option& o : options)
    if (o.group == group || o.names.empty()) text += ".TP\n" + page_head(o) + "\n" + roff_line(sentences(o));
  return text;
}

// "OUT.pt .pth    a torch.save file": the term ends at two spaces. A line without a term goes on with the text before it.
std::string table(const TextBlock& block) {
  std::string text;
  for (const std::string& line : block.lines) {
    const size_t gap = line.find("  ");
    if (gap != std::string::npos)
      text += ".TP\n" + bold(line.substr(0, gap)) + "\n" + roff_line(line.substr(line.find_first_not_of(' ', gap)));
    else text += (text.empty() ? ".PP\n" : "") + roff_line(line);
  }
  return text;
}

std::string description(const Command& command, const std::vector<TextBlock>& blocks) {
  std::string text = section("DESCRIPTION");
  if (blocks.empty() || blocks.front().kind == TextBlock::Kind::kExample) text += roff_line(command.about + ".");
  bool after_table = false;
  for (size_t i = 0; i < blocks.size(); ++i) {
    const TextBlock& b = blocks[i];
    if (b.kind == TextBlock::Kind::kExample) continue;
    if (b.kind == TextBlock::Kind::kTable) text += table(b);
    else if (i > 0 || after_table) text += ".PP\n";
    after_table = b.kind == TextBlock::Kind::kTable;
    if (!after_table)
      for (const std::string& line : b.lines) text += roff_line(line);
  }
  return text;
}

std::string examples(const std::vector<TextBlock>& blocks) {
  std::string text;
  for (const TextBlock& b : blocks) {
    if (b.kind != TextBlock::Kind::kExample) continue;
    text += (text.empty() ? section("EXAMPLES") : ".PP\n") + ".nf\n";
    for (const std::string& line : b.lines) text += roff_line(line);
    text += ".fi\n";
  }
  return text;
}

std::string exit_status() {
  std::string text = section("EXIT STATUS") + ".PD 0\n";
  for (const ExitStatus& s : kExitStatuses)
    text += ".TP 6\n" + bold(std::to_string(static_cast<int>(s.code))) + "\n" + roff_line(s.meaning);
  return text + ".PD\n";
}

// The command's name bold, what stands for something else in italics.
std::string synopsis(const Command& command) {
  const std::string name = joined(command.path, " ");
  std::string text = bold(name), word;
  for (const char c : usage_line(command).substr(name.size()) + " ") {
    if (std::isupper(static_cast<unsigned char>(c))) {
      word += c;
      continue;
    }
    if (!word.empty()) text += italic(std::exchange(word, ""));
    text += c;
  }
  text.pop_back();
  return section("SYNOPSIS") + text + "\n";
}

// A command's own options come first and without a title.
std::string options(const Command& command) {
  std::string own, grouped;
  for (const std::string& g : groups_of(command)) {
    if (g == command.options.back().group) own = entries(command.options, g);
    else grouped += ".SS \"" + roff(g) + "\"\n" + entries(command.options, g);
  }
  return section("OPTIONS") + own + grouped;
}

std::string page_name(const Command& command) { return joined(command.path, "-"); }

// The pages above, the pages beside, all pages below.
std::string see_also(const Command& command) {
  const std::string own = joined(command.path, " ") + " ", parent = joined({command.path.begin(), command.path.end() - 1}, " ") + " ";
  std::string text;
  for (const CommandName& c : command_names()) {
    std::string other = "dcpctl " + (c.path.empty() ? "" : std::string(c.path) + " ");
    const bool beside = other.starts_with(parent) && std::ranges::count(other, ' ') == std::ranges::count(own, ' ');
    if (other == own || !(beside || other.starts_with(own) || own.starts_with(other))) continue;
    other.pop_back();
    std::ranges::replace(other, ' ', '-');
    text += (text.empty() ? "" : ",\n") + bold(other) + "(1)";
  }
  return section("SEE ALSO") + text + "\n";
}

}  // namespace

std::string man_page(const Command& command) {
  const std::vector<TextBlock> blocks = blocks_of(command.details);
  std::string about = command.about.substr(0, command.about.find(": "));
  const bool word = about.size() > 1 && std::islower(static_cast<unsigned char>(about[1]));
  if (word || about.starts_with("A ")) about[0] = static_cast<char>(std::tolower(static_cast<unsigned char>(about[0])));
  std::string text = ".\\\" Generated from the command line by 'dcpctl man'.\n.TH " + roff(upper(page_name(command))) +
                     " 1 \"\" \"dcpctl " DCPCTL_VERSION "\" \"dcpctl manual\"\n.ad l\n.nh\n";
  text += section("NAME") + roff(page_name(command)) + " \\- " + roff(about) + "\n";
  text += synopsis(command);
  text += description(command, blocks);
  for (const CommandAlias& a : command_aliases())
    if (a.is_told && a.path == short_path(command)) text += ".PP\n" + bold("dcpctl " + std::string(a.name)) + " is another name for it.\n";
  const std::vector<const CommandName*> commands = commands_under(command);
  if (!commands.empty()) text += section("COMMANDS");
  for (const CommandName* c : commands) text += ".TP\n" + bold(c->name()) + "\n" + roff_line(std::string(c->about) + ".");
  if (!command.arguments.empty()) text += section("ARGUMENTS") + entries(command.arguments, "");
  return text + options(command) + exit_status() + examples(blocks) + see_also(command);
}

}  // namespace dcp::cmd
