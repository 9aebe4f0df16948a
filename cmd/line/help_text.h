// The texts of a command, from its declaration: --help, -h, and its manual page.
#pragma once

#include <unistd.h>

#include <string>
#include <string_view>
#include <vector>

#include "line/command.h"

namespace dcp::cmd {

// Groups of options in the order of their first option.
std::vector<std::string> groups_of(const Command& command);

// "consolidate [OPTION]... CKPT OUT", under the command's full name.
std::string usage_line(const Command& command);

// `details` in blocks, separated by empty lines. A block is prose, an indented table of terms, or indented command lines to copy.
struct TextBlock {
  enum class Kind : uint8_t { kProse, kTable, kExample };
  Kind kind = Kind::kProse;
  std::vector<std::string> lines;  // without the indent
};
std::vector<TextBlock> blocks_of(std::string_view details);

struct HelpForm {
  size_t columns = 80;  // maximum line width, as far as words and command lines allow
  bool color = false;   // of headings
};
HelpForm help_form(const Context& context, int fd = STDOUT_FILENO);
std::string help_text(const Command& command, HelpForm form);
// On one screen: options by name, examples.
std::string short_help_text(const Command& command, HelpForm form);

// "-j, --threads N"; a positional: "CKPT".
std::string option_head(const Option& option);

// Manual pages in roff, from the declarations of commands. They carry no date: the same declarations give the same bytes.
std::string man_page(const Command& command);

}  // namespace dcp::cmd
