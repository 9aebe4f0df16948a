// The command line as plain data: one walk over CLI11's tree. Help, man pages, completions and suggestions are all made from this, so
// that none of them can say something else than the parser does.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "sandbox.h"

namespace CLI {
class App;
}

namespace dcp::cmd {

// What a shell can offer for a value.
enum class ValueKind : uint8_t { kNone, kText, kFile, kFolder, kChoice, kCommand };

// An option, or a positional argument (which has no names).
struct OptionText {
  std::vector<std::string> names;  // "-j", "--threads"
  std::string value;               // "N"; empty for a flag
  std::string help, group;
  std::vector<std::string> choices;  // of a closed list
  ValueKind kind = ValueKind::kNone;
  std::optional<Access> access;  // of a path
  bool required = false, repeatable = false;
};

struct CommandText {
  std::vector<std::string> path;  // {"dcpctl", "bench", "io"}
  std::string about;              // one line, without a period
  std::string details;            // paragraphs, indented tables and indented example command lines
  std::vector<OptionText> options;
  std::vector<OptionText> positionals;
  std::vector<CommandText> commands;

  const std::string& name() const { return path.back(); }
};

CommandText command_tree(const CLI::App& app);

// The command that `words` ("bench", "io") lead to from `root`. Throws usage, with the closest name as a hint.
const CommandText& find_command(const CommandText& root, const std::vector<std::string>& words);

// `root` and all below it, parents first.
std::vector<const CommandText*> all_commands(const CommandText& root);

// Groups of options in the order of their first option.
std::vector<std::string> groups_of(const CommandText& command);

// {"dcpctl", "bench", "io"}, "-" → "dcpctl-bench-io".
std::string joined(const std::vector<std::string>& words, std::string_view between);

// "consolidate [OPTION]... CKPT OUT", under the command's full name.
std::string usage_line(const CommandText& command);

// `details` in blocks, as empty lines part it. A block is prose, an indented table of terms, or indented command lines to copy.
struct TextBlock {
  enum class Kind : uint8_t { kProse, kTable, kExample };
  Kind kind = Kind::kProse;
  std::vector<std::string> lines;  // without the indent
};
std::vector<TextBlock> blocks_of(std::string_view details);

}  // namespace dcp::cmd
