// What settings and config.json say to a map: conditions of its lines, and values that stand in for those of config.json.
#pragma once

#include <vector>

#include "maps/config.h"
#include "maps/model_map.h"

namespace dcp::maps {

// Settings that are neither a size, an axis, a choice or a piece of names of the map nor a key of config.json that it asks for are
// map_setting; those of config.json are put into it.
void apply_settings(const ModelMap& map, const std::vector<Setting>& settings, Config& config);

// Whether the map has a place for a setting of this name.
bool asks_for(const ModelMap& map, const std::string& name);

bool holds(const std::vector<Condition>& conditions, const Config& config);

}  // namespace dcp::maps
