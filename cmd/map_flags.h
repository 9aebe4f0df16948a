// --map and what belongs to it: which map of a model, and what it needs to know.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "context.h"
#include "maps/resolve.h"

namespace dcp::cmd {

struct MapFlags {
  std::string map;  // "": none
  std::string config;
  std::vector<std::string> sets;
  maps::Unmapped unmapped = maps::Unmapped::kError;
  std::optional<maps::Side> from;

  std::vector<maps::Setting> settings() const;  // throws map_setting
};

void add_map(Command& command, MapFlags& flags);
// --config and --set alone.
void add_map_config(Command& command, MapFlags& flags, const std::string& group);

// A file's name has a '/' or ends in .map; other names are those of built-in maps.
bool is_map_file(const std::string& name);
// Throws map_unknown, and what reading one can throw.
maps::ModelMap open_map(const std::string& name, const Context& context);
maps::Config open_config(const std::string& path, const Context& context);

}  // namespace dcp::cmd
