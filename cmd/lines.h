// Lines and tables that fit the terminal.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "context.h"

namespace dcp::cmd {

// Code points, which is near enough for columns; what colours it takes none.
size_t display_width(std::string_view text);

// `text` in lines of at most `width`, broken at blanks, all but the first indented. A 'dcpctl ...' in quotes is not broken: it gets copied.
std::string wrapped(std::string_view text, size_t indent, size_t width);

// Where `fd` is a terminal each line is wrapped, what goes on further in than it began; for programs it stays one.
std::string fitted(const Context& context, std::string_view lines, int fd);

// Rows of text cells in aligned columns two spaces apart; `right` says which columns are right-aligned. `rows` gives each row to the
// function that it gets, and is called twice: for the widths, and to print. Rows are not held: there may be one for each of 10^7 chunks.
using Cells = std::vector<std::string>;
using RowSource = std::function<void(const std::function<void(Cells)>&)>;
// What does not fit the first column: for people it has a line of its own, so that columns stay, and the last column is wrapped where it
// begins; for programs a row is a line.
enum class LongNames : uint8_t { kOwnLine, kOnTheLine };
void print_table(const Context& context, const std::vector<bool>& right, LongNames long_names, const RowSource& rows);

// Of columns: what their cells need, the first one no more than the terminal leaves it.
std::vector<size_t> widths_of(const Context& context, const std::vector<bool>& right, const RowSource& rows);

}  // namespace dcp::cmd
