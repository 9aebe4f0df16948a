// Which keys, under which names: the options that writers and manifests share.
#pragma once

#include <string>
#include <vector>

#include "catalog/select.h"
#include "context.h"

namespace dcp::cmd {

struct KeyFlags {
  SelectionFlags selection;
  SelectOptions select;  // as far as flags give it: use select_options
  std::vector<std::string> renames;
  std::string rename_map;

  // All of it, in the order of the command line. Throws usage.
  SelectOptions select_options(const Context& context) const;
};
void add_key_flags(Command& command, KeyFlags& flags);

}  // namespace dcp::cmd
