#include "line/help_text.h"

#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <utility>

#include "base/text.h"
#include "line/commands.h"
#include "line/exit_status.h"
#include "line/lines.h"
#include "line/usage.h"

namespace dcp::cmd {
namespace {

// Where help texts begin.
size_t column_of(size_t width) { return std::min<size_t>(30, width / 3); }

std::string entry(std::string head, const std::string& text, size_t width) {
  const size_t column = column_of(width);
  head.insert(0, "  ");
  head += head.size() + 2 > column ? "\n" + std::string(column, ' ') : std::string(column - head.size(), ' ');
  return head + wrapped(text, column, width) + "\n";
}

// A table's terms end at two spaces; its texts are wrapped where they begin. A file that is shown stays as it is.
std::string table_text(const TextBlock& block, size_t width) {
  std::string text;
  for (const std::string& line : block.lines) {
    const size_t gap = line.find("  "), begin = gap == std::string::npos ? 0 : line.find_first_not_of(' ', gap);
    text += "  " + line.substr(0, begin) + (begin == 0 ? line : wrapped(line.substr(begin), begin + 2, width)) + "\n";
  }
  return text;
}

// Command lines that are too long are continued, as a shell reads them. What is quoted, and a comment, stays in one piece.
std::string example_text(const TextBlock& block, size_t width) {
  constexpr size_t kIndent = 2, kFurther = 4;
  std::string text;
  for (const std::string& line : block.lines) {
    size_t column = kIndent, begin = 0;
    text.append(kIndent, ' ');
    bool is_quoted = false, is_comment = false;
    for (size_t at = 0; at <= line.size(); ++at) {
      if (at < line.size() && line[at] == '\'') is_quoted = !is_quoted;
      is_comment = is_comment || (at < line.size() && line[at] == '#' && at > 0 && line[at - 1] == ' ');
      if (at < line.size() && (line[at] != ' ' || is_quoted || is_comment)) continue;
      const std::string word = line.substr(begin, at - begin);
      const bool is_last = at == line.size();
      if (begin > 0 && column + word.size() + (is_last ? 0 : 2) > width && word.find_first_not_of(' ') != word.npos) {
        text.erase(text.find_last_not_of(' ') + 1).append(" \\\n").append(kFurther, ' ');
        column = kFurther;
      }
      text += word + (is_last ? "\n" : " ");
      column += word.size() + 1;
      begin = at + 1;
    }
  }
  return text;
}

// Prose is wrapped anew; command lines stay as they are.
std::string details_text(const Command& command, size_t width) {
  std::string text;
  for (const TextBlock& b : blocks_of(command.details)) {
    text += "\n";
    if (b.kind == TextBlock::Kind::kProse) text += wrapped(joined(b.lines, " "), 0, width) + "\n";
    if (b.kind == TextBlock::Kind::kTable) text += table_text(b, width);
    if (b.kind == TextBlock::Kind::kExample) text += example_text(b, width);
  }
  return text;
}

std::string examples_text(const Command& command, size_t width) {
  std::string text;
  for (const TextBlock& b : blocks_of(command.details))
    if (b.kind == TextBlock::Kind::kExample) text += "\n" + example_text(b, width);
  return text;
}

// Under the questions that they are for.
std::string commands_text(const Command& command, const HelpForm& form) {
  constexpr size_t kNames = 10, kTexts = 24;
  const std::vector<const CommandName*> commands = commands_under(command);
  std::string text, before;
  for (const CommandName* c : commands) {
    const std::string title(c->question);
    if (text.empty()) text = title.empty() ? "\n" + styled("Commands:", Style::kBold, form.color) + "\n" : "\n";
    if (title.empty()) {
      text += entry(c->name(), std::string(c->about), form.columns);
      continue;
    }
    std::string head(kNames, ' ');
    if (title != std::exchange(before, title))
      head = "  " + styled(title + ":", Style::kBold, form.color) + std::string(kNames - title.size() - 3, ' ');
    text += head + c->name() + std::string(std::max(kTexts - kNames, c->name().size() + 1) - c->name().size(), ' ') +
            wrapped(c->about, kTexts, form.columns) + "\n";
  }
  return text;
}

std::string head_text(const Command& command, const HelpForm& form) {
  const size_t width = form.columns;
  std::string text =
      wrapped(command.about, 0, width) + "\n\n" + styled("Usage:", Style::kBold, form.color) + " " + usage_line(command) + "\n";
  if (!command.arguments.empty()) text += "\n";
  for (const Option& a : command.arguments) text += entry(option_head(a), a.help, width);
  return text + commands_text(command, form);
}

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
  const std::string own = joined(command.path, " ") + " ",
                    parent = joined(std::span(command.path).first(command.path.size() - 1), " ") + " ";
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

std::vector<std::string> groups_of(const Command& command) {
  std::vector<std::string> groups;
  for (const Option& o : command.options)
    if (std::ranges::find(groups, o.group) == groups.end()) groups.push_back(o.group);
  return groups;
}

std::string usage_line(const Command& command) {
  std::string line = joined(command.path, " ") + " [OPTION]...";
  for (const Option& a : command.arguments) {
    const std::string name = a.repeatable ? a.value + "..." : a.value;
    line += a.required ? " " + name : " [" + name + "]";
  }
  return commands_under(command).empty() ? line : line + " COMMAND";
}

std::vector<TextBlock> blocks_of(std::string_view details) {
  std::vector<TextBlock> blocks;
  size_t base = 0;  // of the block: lines may be further in
  bool open = false;
  for (const std::string_view line : split(details, '\n')) {
    const size_t indent = line.find_first_not_of(' ');
    if (indent == std::string_view::npos) {
      open = false;
      continue;
    }
    if (!open) base = indent;
    if (!open) blocks.push_back({.kind = indent == 0 ? TextBlock::Kind::kProse : TextBlock::Kind::kTable, .lines = {}});
    open = true;
    const bool command = line.find("dcpctl ") != std::string_view::npos;
    if (command && blocks.back().kind == TextBlock::Kind::kTable) blocks.back().kind = TextBlock::Kind::kExample;
    blocks.back().lines.emplace_back(line.substr(std::min(indent, base)));
  }
  return blocks;
}

std::string option_head(const Option& option) {
  const std::string names = joined(option.names, ", ");
  return option.value.empty() ? names : names.empty() ? option.value : names + " " + option.value;
}

HelpForm help_form(const Context& context, int fd) { return {.columns = context.columns(fd), .color = context.colored(fd)}; }

constexpr size_t kNarrowest = 40;  // below that lines may be longer

std::string help_text(const Command& command, HelpForm form) {
  const size_t width = form.columns = std::max(form.columns, kNarrowest);
  std::string text = head_text(command, form) + details_text(command, width);
  for (const std::string& group : groups_of(command)) {
    text += "\n" + styled(group + ":", Style::kBold, form.color) + "\n";
    // Long options stand under each other, whether or not they have a short form.
    for (const Option& o : command.options)
      if (o.group == group) text += entry((o.names.front().starts_with("--") ? "    " : "") + option_head(o), o.help, width);
  }
  if (command.path.size() > 1) return text;
  text += "\n" + styled("Exit status:", Style::kBold, form.color) + "\n";
  for (const ExitStatus& s : kExitStatuses) {
    std::string code = std::to_string(static_cast<int>(s.code));
    code.resize(5, ' ');
    text += "  " + code + wrapped(s.meaning, 7, width) + "\n";
  }
  return text;
}

std::string short_help_text(const Command& command, HelpForm form) {
  const size_t width = form.columns = std::max(form.columns, kNarrowest);
  constexpr size_t kShortColumn = 20;
  constexpr char kGlue = '\x1f';  // a name and its value stay on one line
  std::string text = head_text(command, form) + "\n";
  for (const std::string& group : groups_of(command)) {
    std::vector<std::string> heads;
    for (const Option& o : command.options)
      if (o.group == group) heads.push_back(o.names.back() + (o.value.empty() ? "" : kGlue + o.value));
    std::string head = "  " + group + ":";
    head.resize(std::max(head.size() + 2, kShortColumn), ' ');
    const std::string title = styled(group + ":", Style::kBold, form.color);
    text += "  " + title + head.substr(group.size() + 3) + wrapped(joined(heads, ", "), head.size(), width) + "\n";
  }
  std::ranges::replace(text, kGlue, ' ');
  return text + examples_text(command, width) + "\nWhat each option does: " + joined(command.path, " ") + " --help\n";
}

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
