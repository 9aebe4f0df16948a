#include "line/lines.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/posix_calls.h"
#include "base/problem.h"
#include "base/text.h"
#include "line/context.h"

namespace dcp::cmd {

bool write_fd(int fd, std::string_view text) {
  while (!text.empty()) {
    const ssize_t n = ::write(fd, text.data(), text.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) {
      if (fd == STDOUT_FILENO && errno != EPIPE)  // the reader has seen enough: no failure of ours
        fail(ProblemId::io_write, {.path = "standard output"}, posix::reason_of(errno));
      return false;
    }
    text.remove_prefix(static_cast<size_t>(n));
  }
  return true;
}

std::string styled(std::string_view text, Style style, bool color) {
  if (!color) return std::string(text);
  constexpr std::string_view kCodes[] = {"1", "1;31", "1;33", "1;32"};
  return std::string("\033[").append(kCodes[static_cast<size_t>(style)]).append("m").append(text).append("\033[0m");
}

size_t display_width(std::string_view text) {
  size_t width = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\033') i = std::min(text.find('m', i), text.size());
    else width += (static_cast<unsigned char>(text[i]) & 0xC0) != 0x80;
  }
  return width;
}

std::string cut(std::string text, size_t width) {
  if (display_width(text) <= width) return text;
  while (!text.empty() && display_width(text) + 3 > width) {
    while ((static_cast<unsigned char>(text.back()) & 0xC0) == 0x80) text.pop_back();  // of UTF-8, all but a character's first byte
    text.pop_back();
  }
  return text + "...";
}

std::string wrapped(std::string_view text, size_t indent, size_t width) {
  std::string out;
  size_t column = indent;
  for (size_t at = 0; at < text.size();) {
    constexpr std::string_view kCommand = "'dcpctl ";
    const bool is_command = text.substr(at).starts_with(kCommand);
    const size_t close = text.substr(at).starts_with('[') ? text.find_first_not_of("[0123456789:, ", at) : text.npos;
    const bool is_shape = close != text.npos && text[close] == ']';
    const size_t end = std::min(text.find(' ', is_command ? text.find('\'', at + 1) : is_shape ? close : at), text.size());
    const std::string_view word = text.substr(at, end - at);
    const size_t taken = display_width(word);
    if (at > 0 && column + 1 + taken > width) {
      while (out.ends_with(' ')) out.pop_back();
      out.append("\n").append(indent, ' ');
      column = indent;
    } else if (at > 0) {
      out += ' ';
      ++column;
    }
    out += word;
    column += taken;
    at = end + 1;
  }
  return out;
}

std::string fitted(const Context& context, std::string_view lines, int fd) {
  if (!context.at_terminal(fd)) return std::string(lines);
  constexpr size_t kFurther = 4, kMin = 20;
  const size_t columns = context.columns(fd);
  std::string out;
  while (!lines.empty()) {
    const size_t end = std::min(lines.find('\n'), lines.size());
    const std::string_view line = lines.substr(0, end);
    const size_t begin = std::min(line.find_first_not_of(' '), line.size()), indent = begin + kFurther;
    // The first line ends `kFurther` columns early, since it begins before the others.
    if (display_width(line) <= columns) out += line;
    else out += wrapped(line.substr(begin), indent, std::max(columns, indent + kMin)).insert(0, begin, ' ');
    if (end < lines.size()) out += '\n';
    lines.remove_prefix(std::min(end + 1, lines.size()));
  }
  return out;
}

std::vector<size_t> widths_of(const Context& context, const std::vector<bool>& right, const RowSource& rows) {
  constexpr size_t kWidest = 72;  // without a terminal: one key of 300 characters must not push all columns off the screen
  constexpr size_t kMin = 8;      // of the first column: names that are longer stand above the others
  const bool at_terminal = context.at_terminal(STDOUT_FILENO);
  const size_t columns = at_terminal ? context.columns(STDOUT_FILENO) : kWidest;
  std::vector<size_t> widths(right.size(), 0);
  rows([&](Cells cells) {
    for (size_t i = 0; i < cells.size(); ++i) widths[i] = std::max(widths[i], std::min(display_width(cells[i]), columns));
  });
  size_t others = 0;
  for (size_t i = 1; i < widths.size(); ++i) others += widths[i] > 0 ? widths[i] + 2 : 0;
  if (at_terminal) widths[0] = std::min(widths[0], std::max(columns - std::min(columns, others), kMin));
  return widths;
}

static size_t longest_word(std::string_view text) {
  size_t longest = 0;
  for (const std::string_view word : split(text, ' ')) longest = std::max(longest, display_width(word));
  return longest;
}

LongNames for_reader(const Context& context) { return context.at_terminal(STDOUT_FILENO) ? LongNames::kOwnLine : LongNames::kOnTheLine; }

void print_table(const Context& context, const std::vector<bool>& right, LongNames long_names, const RowSource& rows) {
  constexpr size_t kMin = 20;   // of the last column, where it is wrapped
  constexpr size_t kBelow = 6;  // how far in, where its words do not fit beside the others
  const std::vector<size_t> widths = widths_of(context, right, rows);
  const bool wraps = long_names == LongNames::kOwnLine && context.at_terminal(STDOUT_FILENO);
  const size_t columns = context.columns(STDOUT_FILENO);
  size_t last = 0;  // where the last column begins
  for (size_t i = 0; i + 1 < widths.size(); ++i) last += widths[i] > 0 ? widths[i] + 2 : 0;
  std::string text;
  rows([&](Cells cells) {
    for (size_t i = 0; i < cells.size(); ++i) {
      if (widths[i] == 0 && (right[i] || i + 1 < cells.size())) continue;  // nobody has anything there
      const size_t width = display_width(cells[i]), pad = widths[i] > width ? widths[i] - width : 0;
      if (right[i]) text.append(pad, ' ');
      const size_t room = columns - std::min(columns, last);
      const bool is_last = wraps && i > 0 && i + 1 == widths.size() && !right[i];
      const bool is_below = is_last && width > room && (room < kMin || longest_word(cells[i]) > room);
      if (is_below) text.erase(text.find_last_not_of(' ') + 1).append("\n").append(kBelow, ' ');
      const bool is_long = wraps && i == 0 && width > columns;
      text += is_last || is_long ? wrapped(cells[i], is_below || is_long ? kBelow : last, columns) : cells[i];
      if (i == 0 && cells.size() > 1 && width > widths[0] && long_names == LongNames::kOwnLine)
        text.append("\n").append(widths[0] + 2, ' ');
      else if (i + 1 < cells.size()) text.append((right[i] ? 0 : pad) + 2, ' ');
    }
    while (text.ends_with(' ')) text.pop_back();
    text += '\n';
    if (text.size() <= 64 * 1024) return;
    context.print(text);
    text.clear();
  });
  context.print(text);
}

void print_table(const Context& context, const Table& table) {
  std::vector<bool> right(table.head.size(), true);
  std::fill_n(right.begin(), table.left, false);
  print_table(context, right, for_reader(context), [&](const auto& row) {
    row(table.head);
    std::ranges::for_each(table.rows, row);
  });
}

}  // namespace dcp::cmd
