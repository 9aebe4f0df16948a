// Text shared by help and manual pages.
#pragma once

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

}  // namespace dcp::cmd
