// Which keys, under which names: the options that writers and manifests share.
#pragma once

#include <string>
#include <vector>

#include "catalog/select.h"
#include "context.h"

namespace dcp::cmd {

struct KeyFlags {
  SelectionFlags selection;
  SelectOptions select;  // incomplete: use select_options
  std::vector<std::string> renames;
  std::string rename_map;

  // The whole selection, with rules in command line order. Throws usage.
  SelectOptions select_options(const Context& context) const;
};
void add_key_flags(Command& command, KeyFlags& flags);

}  // namespace dcp::cmd
