#include "line/command_text.h"

#include <algorithm>

namespace dcp::cmd {

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
  for (bool open = false; !details.empty();) {
    const size_t end = std::min(details.find('\n'), details.size());
    const std::string_view line = details.substr(0, end);
    details.remove_prefix(std::min(end + 1, details.size()));
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

}  // namespace dcp::cmd
