#include "line/help_text.h"

#include <unistd.h>

#include <algorithm>
#include <utility>

#include "line/command_text.h"
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

}  // namespace

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

}  // namespace dcp::cmd
