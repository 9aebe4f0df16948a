// Which keys, under which names: the options that writers and manifests share.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "line/context.h"
#include "select/select.h"

namespace dcp::cmd {

struct Command;

struct KeyFlags {
  std::vector<KeyRule> rules;  // --include, --exclude, --key, in the order given on the command line
  SelectOptions select;        // incomplete: use select_options
  std::vector<std::string> renames;
  std::string rename_map;
  bool allow_unmatched = false, strict = false;

  // The whole selection, with rules in command line order. Throws usage.
  SelectOptions select_options(const Context& context) const;
  // The same, for what is written: a rule that matches nothing is refused.
  SelectOptions select_to_write(const Context& context) const;
};
// A JSON object of strings. Throws usage.
std::map<std::string, std::string> read_rename_map(Store& store, const std::string& path);
void add_key_flags(Command& command, KeyFlags& flags);
// --allow-unmatched, of commands that write.
void add_allow_unmatched(Command& command, KeyFlags& flags);
// --strict, from when such rules were refused only with it.
void add_strict(Command& command, KeyFlags& flags);

}  // namespace dcp::cmd
