// Text for the terminal: styles, and lines and tables that fit.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace dcp::cmd {

struct Context;

// Writes all of it; throws io_write if standard output cannot be written. False: the reader has closed the pipe.
bool write_fd(int fd, std::string_view text);

// Text with the escape sequences of a style, or unchanged.
enum class Style : uint8_t { kBold, kRed, kYellow, kGreen };
std::string styled(std::string_view text, Style style, bool color);

// Width in columns, approximated by code points; colour sequences count as none.
size_t display_width(std::string_view text);

// As much of `text` as fits, with "..." for the rest.
std::string cut(std::string text, size_t width);

// `text` in lines of at most `width`, broken at blanks, all but the first indented. A quoted 'dcpctl ...' is not broken, so that it can be
// copied.
std::string wrapped(std::string_view text, size_t indent, size_t width);

// If `fd` is a terminal, wraps each line, with continuation lines indented further; otherwise leaves it alone.
std::string fitted(const Context& context, std::string_view lines, int fd);

// Rows of text cells in aligned columns two spaces apart; `right` says which columns are right-aligned. `rows` passes each row to its
// argument, and is called twice: for the widths, and to print. Rows are not held: there may be one for each of 10^7 chunks.
using Cells = std::vector<std::string>;
using RowSource = std::function<void(const std::function<void(Cells)>&)>;
// Names too long for the first column: for people they get a line of their own, so that columns stay aligned, and the last column wraps;
// for programs a row is a line.
enum class LongNames : uint8_t { kOwnLine, kOnTheLine };
LongNames for_reader(const Context& context);  // a terminal's is a person
void print_table(const Context& context, const std::vector<bool>& right, LongNames long_names, const RowSource& rows);

struct Table {
  uint64_t left = 1;  // this many columns are names, the others numbers
  Cells head;
  std::vector<Cells> rows;
};
void print_table(const Context& context, const Table& table);

// Column widths: as wide as their cells, but the first one no wider than the terminal allows.
std::vector<size_t> widths_of(const Context& context, const std::vector<bool>& right, const RowSource& rows);

}  // namespace dcp::cmd
